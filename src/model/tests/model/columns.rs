//! Type tables against brute force.

use berth_model::{
    CapacityType, Cluster, ColumnId, ColumnTable, Daemon, Effect, InstanceType, Labels, Money, NodePool, Offering,
    Operator, PodSpec, Requirement, Requirements, ResourceId, Resources, Taint, Toleration, TolerationOperator,
};
use fixedbitset::FixedBitSet;
use proptest::collection::vec;
use proptest::prelude::*;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A type's amounts, and its offerings: zone (3 is none), whether reserved, price.
type TypeRow = (Vec<i64>, Vec<(u8, bool, u32)>);

fn mk_pool(cluster: &mut Cluster) -> NodePool {
    NodePool {
        name: cluster.symbols.intern("default"),
        weight: 0,
        requirements: Requirements::new(),
        taints: Vec::new(),
        limits: Vec::new(),
        node_limit: None,
        used: Resources::new(),
        nodes: 0,
        reserved: Resources::new(),
        node_class: None,
        refusal: None,
    }
}

fn mk_types(cluster: &mut Cluster, rows: &[TypeRow]) {
    for (index, (amounts, offerings)) in rows.iter().enumerate() {
        let name = cluster.symbols.intern(&format!("t{index:02}"));
        let offerings = offerings.iter().map(|&(zone, is_reserved, price)| {
            let zone = (zone < 3).then(|| cluster.symbols.intern(&format!("z{zone}")));
            let capacity_type = if is_reserved { CapacityType::Reserved } else { CapacityType::OnDemand };
            let key = cluster.symbols.intern(ZONE);
            Offering {
                capacity_type,
                zone,
                price: if is_reserved { Money::ZERO } else { Money::from_pico(i128::from(price)) },
                list_price: Money::from_pico(i128::from(price)),
                slots: None,
                labels: Labels::new(zone.map(|zone| (key, zone))),
            }
        });
        let offerings = offerings.collect();
        let labels = Labels::new([(cluster.well_known.instance_type, name)]);
        let resources = Resources::from_amounts(amounts);
        cluster.instance_types.push(InstanceType {
            name,
            labels,
            operating_systems: Vec::new(),
            resources,
            node_class: None,
            offerings,
            sold_out: Vec::new(),
        });
    }
}

fn types() -> impl Strategy<Value = Vec<TypeRow>> {
    // Few distinct amounts, so that columns tie; up to 160 columns, so that sets have several words.
    vec((vec(0..6_i64, 3..5), vec((0..4_u8, prop::bool::weighted(0.2), 1..6_u32), 1..6)), 1..32)
}

fn requests() -> impl Strategy<Value = Resources> {
    vec(0..7_i64, 0..6).prop_map(|amounts| Resources::from_amounts(&amounts))
}

fn set_of(n: usize, seed: u64) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(n);
    set.extend((0..n).filter(|&at| (seed.rotate_left(u32::try_from(at * 7 % 64).unwrap()) ^ at as u64) & 3 != 0));
    set
}

fn mk_table(rows: &[TypeRow]) -> (Cluster, ColumnTable) {
    let mut cluster = Cluster::new();
    // One resource that some types have, and one that none has.
    for name in ["gpu", "fpga"] {
        let name = cluster.symbols.intern(name);
        cluster.resource_names.intern(name);
    }
    mk_types(&mut cluster, rows);
    let pool = mk_pool(&mut cluster);
    let table = ColumnTable::new(&cluster, &pool);
    (cluster, table)
}

proptest! {
    #[test]
    fn columns_are_cheapest_first_and_reserved_ones_are_marked(rows in types()) {
        let (_, table) = mk_table(&rows);
        prop_assert_eq!(table.columns.len(), rows.iter().map(|(_, offerings)| offerings.len()).sum::<usize>());
        prop_assert!(table.columns.is_sorted_by_key(|column| (column.price, column.list_price)));
        for (at, column) in table.columns.iter().enumerate() {
            prop_assert_eq!(table.reserved.contains(at), column.capacity_type == CapacityType::Reserved);
        }
    }

    #[test]
    fn holding_is_every_column_with_so_much_room(rows in types(), resource in 0..6_u16, amount in -1..8_i64) {
        let (_, table) = mk_table(&rows);
        let id = ResourceId(resource);
        let expected: Vec<usize> =
            (0..table.columns.len()).filter(|&at| table.columns[at].room.get(id) >= amount).collect();
        let found: Vec<usize> = table.holding(id, amount).map(|set| set.ones().collect()).unwrap_or_default();
        if resource < 5 || amount <= 0 {
            prop_assert_eq!(found, expected);
        } else {
            prop_assert!(found.is_empty(), "a resource that the cluster does not know");
        }
    }

    #[test]
    fn what_fits_is_kept(rows in types(), requests in requests(), seed: u64) {
        let (_, table) = mk_table(&rows);
        let mut set = set_of(table.columns.len(), seed);
        let expected: Vec<usize> = set.ones().filter(|&at| requests.fits(&table.columns[at].room)).collect();
        table.keep_fitting(&mut set, &requests);
        prop_assert_eq!(set.ones().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_cheapest_paid_column_is_the_first_that_fits(rows in types(), requests in requests(), a: u64, b: u64) {
        let (_, table) = mk_table(&rows);
        let (a, b) = (set_of(table.columns.len(), a), set_of(table.columns.len(), b));
        let fits = |at: &usize| {
            let column = &table.columns[*at];
            column.capacity_type != CapacityType::Reserved && requests.fits(&column.room)
        };
        let expected = (0..table.columns.len()).filter(|&at| a.contains(at) && b.contains(at)).find(fits);
        let (none, mut rest) = (Resources::new(), requests.clone());
        let half = Resources::from_amounts(&requests.amounts().iter().map(|amount| amount / 2).collect::<Vec<_>>());
        rest.subtract(&half);
        for (requests, used) in [(&requests, &none), (&none, &requests), (&half, &rest)] {
            prop_assert_eq!(table.cheapest_paid(&a, &b, requests, used).map(ColumnId::index), expected);
        }
    }

    #[test]
    fn columns_are_admitted_by_their_labels(rows in types(), operator in 0..4_usize, zone in 0..3_u8) {
        let (mut cluster, table) = mk_table(&rows);
        let operator = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist][operator];
        let (key, value) = (cluster.symbols.intern(ZONE), cluster.symbols.intern(&format!("z{zone}")));
        let values = matches!(operator, Operator::In | Operator::NotIn).then_some(value);
        let mut requirements = Requirements::new();
        requirements.add(key, Requirement::new(operator, values, &cluster.symbols), &cluster.symbols);
        let admits = |at: &usize| requirements.match_labels(&cluster.symbols, |_| table.columns[*at].zone);
        let expected: Vec<usize> = (0..table.columns.len()).filter(admits).collect();
        prop_assert_eq!(table.admitting(&requirements, &cluster.symbols).ones().collect::<Vec<_>>(), expected);
    }
}

fn mk_daemon(cluster: &mut Cluster, zones: &[&str], tolerations: Vec<Toleration>) {
    let key = cluster.symbols.intern(ZONE);
    let terms = zones.iter().map(|zone| {
        let mut term = Requirements::new();
        term.add(key, Requirement::value(cluster.symbols.intern(zone)), &cluster.symbols);
        term
    });
    let required_terms = terms.collect();
    let requests = Resources::from_amounts(&[1, 2, 1]);
    let spec = cluster.intern_spec(PodSpec { requests, required_terms, tolerations, ..PodSpec::default() });
    let (namespace, labels) = (cluster.symbols.intern("kube-system"), cluster.intern_labels(Labels::default()));
    cluster.daemons.push(Daemon { name: "kube-system/agent".to_owned(), namespace, spec, labels });
}

fn rooms(cluster: &Cluster, pool: &NodePool) -> Vec<(String, Vec<i64>, Vec<i64>)> {
    let table = ColumnTable::new(cluster, pool);
    let row = |column: &berth_model::Column| {
        let zone = column.zone.map_or("", |zone| cluster.symbols.text(zone)).to_owned();
        (zone, column.room.amounts().to_vec(), column.daemons.amounts().to_vec())
    };
    table.columns.iter().map(row).collect()
}

#[test]
fn daemons_take_room_only_where_one_of_their_terms_holds() {
    let mut cluster = Cluster::new();
    mk_types(&mut cluster, &[(vec![4, 8, 10], vec![(0, false, 1), (1, false, 2), (2, false, 3)])]);
    let pool = mk_pool(&mut cluster);
    mk_daemon(&mut cluster, &["z0", "z2"], Vec::new());
    let with = |zone: &str| (zone.to_owned(), vec![3, 6, 9], vec![1, 2, 1]);
    assert_eq!(rooms(&cluster, &pool), [with("z0"), ("z1".to_owned(), vec![4, 8, 10], vec![]), with("z2")]);
}

#[test]
fn daemons_run_in_a_tainted_pool_only_if_they_tolerate_it() {
    let mut cluster = Cluster::new();
    mk_types(&mut cluster, &[(vec![4, 8, 10], vec![(0, false, 1)])]);
    let mut pool = mk_pool(&mut cluster);
    let (key, value) = (cluster.symbols.intern("gpu"), cluster.symbols.intern(""));
    pool.taints.push(Taint { key, value, effect: Effect::NoSchedule });
    mk_daemon(&mut cluster, &[], Vec::new());
    assert_eq!(rooms(&cluster, &pool)[0].1, [4, 8, 10]);
    let all = Toleration { key: None, operator: TolerationOperator::Exists, value, effect: None };
    mk_daemon(&mut cluster, &[], vec![all.clone()]);
    mk_daemon(&mut cluster, &[], vec![all]);
    assert_eq!(rooms(&cluster, &pool)[0].1, [2, 4, 8], "two of them");
}

#[test]
fn a_pool_offers_what_meets_its_requirements_and_keeps_other_labels_open() {
    let mut cluster = Cluster::new();
    mk_types(&mut cluster, &[(vec![4, 8, 10], vec![(0, false, 1), (1, false, 2)])]);
    let mut pool = mk_pool(&mut cluster);
    let [zone, team, tier, z1, blue, red] =
        [ZONE, "team", "tier", "z1", "blue", "red"].map(|text| cluster.symbols.intern(text));
    pool.requirements.add(zone, Requirement::value(z1).with_min_values(Some(1)), &cluster.symbols);
    pool.requirements.add(team, Requirement::one_of([blue, red]), &cluster.symbols);
    pool.requirements.add(tier, Requirement::value(blue), &cluster.symbols);
    let table = ColumnTable::new(&cluster, &pool);
    assert_eq!(table.columns.iter().map(|column| column.zone).collect::<Vec<_>>(), [Some(z1)]);
    assert!(table.decides(zone) && table.decides(tier) && !table.decides(team));
    assert_eq!(table.open.get(team).and_then(Requirement::finite_values), Some(&[blue, red][..]));
    assert_eq!(table.min_values, [(zone, 1)]);
    let mut asks_red = Requirements::new();
    asks_red.add(team, Requirement::value(red), &cluster.symbols);
    let open = table.open_with(&asks_red, &cluster.symbols).unwrap();
    assert_eq!(open.get(team).and_then(Requirement::single), Some(red));
    asks_red.add(team, Requirement::value(z1), &cluster.symbols);
    assert_eq!(table.open_with(&asks_red, &cluster.symbols), None);
}
