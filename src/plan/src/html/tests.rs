#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

use base64::Engine;
use berth_model::{
    CapacityType, InstanceType, Labels, MemberKind, MemberRun, Node, NodePool, Offering, PodSpec, Refusal, Requirement,
    Requirements, Resources, SlotId, Slots,
};
use berth_model::{Cluster, Money};
use sha2::Digest;

use super::*;

#[test]
fn the_policy_names_the_script_that_the_page_has() {
    let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(SCRIPT));
    assert_eq!(SCRIPT_SHA256, hash, "the script was edited: this is its new hash");
}

#[test]
fn assets_need_nothing_from_elsewhere() {
    for asset in [PAGE, STYLE, SCRIPT] {
        for word in ["http:", "https:", "//cdn", "src=", "url(", "@import", "import(", "fetch(", "innerHTML"] {
            assert!(!asset.contains(word), "{word}");
        }
    }
    // It would end the element that holds it.
    assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
}

#[test]
fn every_place_of_the_page_is_filled() {
    let names: Vec<&str> = parts(PAGE).map(|(name, _)| name).collect();
    let expected = [
        "",
        "script-sha256",
        "title",
        "style",
        "headline",
        "unschedulable",
        "offerings",
        "reservations",
        "restrictions",
        "preempted",
        "disruption",
        "data",
        "script",
    ];
    assert_eq!(names, expected);
}

/// Would end the elements and attributes that text is written into.
const EVIL: &str = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\"'&amp;";

fn pending(cluster: &mut Cluster, name: &str, spec: PodSpec, count: u32) {
    let spec = cluster.intern_spec(spec);
    let labels = cluster.intern_labels(Labels::default());
    let namespace = cluster.symbols.intern(&format!("namespace{name}"));
    let row = cluster.pending_row(MemberKind::Pod, namespace, spec, labels).unwrap();
    row.members = vec![MemberRun { name: format!("pod{name}").into(), numbers: Some((0, count)) }];
}

/// One node that exists, nodes on a reservation, paid nodes, and a pod without a place; `name` is in every text.
fn a_bit_of_everything(name: &str) -> Plan {
    let mut cluster = Cluster::new();
    let keys = cluster.well_known.clone();
    let mut sym = |text: &str| cluster.symbols.intern(&format!("{text}{name}"));
    let (zone, type_name, slots, pool, node) = (sym("zone"), sym("type"), sym("reservation"), sym("pool"), sym("node"));
    let device = sym("example.com/device");
    let device = cluster.resource_names.intern(device);
    let labels = |capacity: berth_model::Sym| Labels::new([(keys.zone, zone), (keys.capacity_type, capacity)]);
    let on_demand = cluster.symbols.intern("on-demand");
    let linux = cluster.symbols.intern("linux");
    let mut room = Resources::from_amounts(&[4000, 1 << 34, 10]);
    room.set(device, 4);
    let price = Money::from_pico(1_000_000_000_000);
    let offering = |capacity_type, slots, price, capacity| Offering {
        capacity_type,
        zone: Some(zone),
        price,
        list_price: Money::from_pico(1_000_000_000_000),
        slots,
        labels: labels(capacity),
    };
    cluster.slots = vec![Slots { id: slots, is_reservation: true, free: 1 }];
    cluster.instance_types = vec![InstanceType {
        name: type_name,
        labels: Labels::new([(keys.instance_type, type_name)]),
        operating_systems: vec![linux],
        node_class: None,
        resources: room.clone(),
        offerings: vec![
            offering(CapacityType::Reserved, Some(SlotId(0)), Money::ZERO, keys.reserved),
            offering(CapacityType::OnDemand, None, price, on_demand),
        ],
        sold_out: Vec::new(),
    }]
    .into();
    let mut requirements = Requirements::new();
    requirements.add(keys.node_pool, Requirement::value(pool), &cluster.symbols);
    cluster.node_pools = vec![NodePool {
        name: pool,
        weight: 0,
        requirements,
        taints: Vec::new(),
        limits: Vec::new(),
        node_limit: None,
        used: Resources::new(),
        nodes: 0,
        reserved: Resources::new(),
        node_class: None,
        refusal: None,
    }]
    .into();
    let labels =
        [(keys.zone, zone), (keys.instance_type, type_name), (keys.capacity_type, slots), (keys.hostname, node)];
    cluster.nodes = vec![Node {
        name: node,
        labels: Labels::new(labels),
        open: berth_model::Requirements::new(),
        taints: Vec::new(),
        free: room.clone(),
        allocatable: room.clone(),
        capacity: room,
        node_pool: Some(0),
        attach_limits: Vec::new(),
        volume_pools: Vec::new(),
        cordon: berth_model::Cordon::None,
        is_coming_up: false,
        is_leaving: false,
        images: Vec::new(),
        holdings: Vec::new(),
        units: berth_model::Units::default(),
        pods: Vec::new(),
    }];
    let mut requests = Resources::from_amounts(&[1500, 1 << 30, 1]);
    requests.set(device, 1);
    pending(&mut cluster, name, PodSpec { requests, ..PodSpec::default() }, 6);
    let refusal = Some(Refusal(format!("refusal{name}")));
    pending(&mut cluster, name, PodSpec { refusal, ..PodSpec::default() }, 2);
    let huge = Resources::from_amounts(&[1_000_000, 0, 1]);
    pending(&mut cluster, name, PodSpec { requests: huge, ..PodSpec::default() }, 2);
    Plan::of(cluster)
}

fn page(plan: &Plan) -> String {
    let mut out = Vec::new();
    write(plan, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_from_the_input_is_never_markup_or_script() {
    let (clean, page) = (page(&a_bit_of_everything("")), page(&a_bit_of_everything(EVIL)));
    // No element begins or ends that does not in a page of harmless names.
    let count = |page: &str, what: &str| page.matches(what).count();
    assert_eq!(count(&page, "<"), count(&clean, "<"));
    assert_eq!(count(&page, ">"), count(&clean, ">"));
    assert_eq!(count(&page, "alert(1)</script"), 0);
    // It is all there, as text.
    let text = escape::Escaped(EVIL).to_string();
    for name in ["zone", "type", "reservation", "pool", "pod", "namespace", "refusal"] {
        assert!(page.contains(&format!("{name}{text}")), "{name}");
    }
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: serde_json::Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    for (at, name) in [
        ("/groups/0/p", "pool"),
        ("/groups/0/z", "zone"),
        ("/groups/0/v", "reservation"),
        ("/types/0/0", "type"),
        ("/nodes/0/o", "node"),
        ("/nodes/0/c", "reservation"),
        ("/resources/3/0", "example.com/device"),
    ] {
        assert_eq!(data.pointer(at).unwrap(), &format!("{name}{EVIL}"), "{at}");
    }
    assert_eq!(data["classes"][0]["m"][0][0], format!("namespace{EVIL}/pod{EVIL}"));
}

#[test]
fn what_has_no_place_is_there_with_each_reason() {
    let page = page(&a_bit_of_everything(""));
    assert!(page.contains("<h3><span>Pod</span> namespace/pod-0 <span>and 1 more alike</span></h3>\n<p><span class=\"reason\">refusal</span>"), "{page}");
    assert!(
        page.contains("<b>0/1 nodes are available</b> <span class=\"reason\"><b>1</b> Insufficient cpu</span>"),
        "{page}"
    );
    assert!(page.contains("<b>NodePool pool</b> <span class=\"reason\"><b>1</b> Insufficient cpu</span>"), "{page}");
}
