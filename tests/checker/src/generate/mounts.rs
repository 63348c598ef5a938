//! Disks of in-tree kinds that pods mount without a claim.

use serde_json::{Value, json};

use super::rng::Rng;

fn disk(rng: &mut Rng) -> Value {
    let is_read_only = rng.percent(50);
    let mut volume = match rng.between(0, 3) {
        0 => json!({"gcePersistentDisk": {"pdName": rng.pick(&["models", "logs"]), "readOnly": is_read_only}}),
        1 => json!({"awsElasticBlockStore": {"volumeID": rng.pick(&["vol-1", "vol-2"]), "readOnly": is_read_only}}),
        2 => json!({"iscsi": {
            "targetPortal": "10.0.0.1:3260", "iqn": rng.pick(&["iqn.2001-04.com.example:a", "iqn.2001-04.com.example:b"]),
            "lun": rng.between(0, 1), "readOnly": is_read_only,
        }}),
        _ => {
            let monitors = *rng.pick(&[&["10.0.0.1"][..], &["10.0.0.2", "10.0.0.1"], &["10.0.0.3"]]);
            let mut rbd = json!({"monitors": monitors, "image": rng.pick(&["x", "y"]), "readOnly": is_read_only});
            if rng.percent(50) {
                rbd["pool"] = (*rng.pick(&["rbd", "fast"])).into();
            }
            json!({"rbd": rbd})
        }
    };
    volume["name"] = format!("mount-{}", rng.between(0, 999_999)).into();
    volume
}

/// Gives some pods, running or to come, and some Reservations disks, most often the same.
pub(super) fn mount(rng: &mut Rng, objects: &mut [Value]) {
    let shared: Vec<Value> = (0..rng.between(1, 3)).map(|_| disk(rng)).collect();
    for object in objects {
        let (spec, percent) = match object["kind"].as_str() {
            Some("Pod") => ("/spec", 40),
            Some("Deployment" | "StatefulSet" | "ReplicaSet" | "Job") => ("/spec/template/spec", 30),
            Some("DaemonSet" | "Reservation") => ("/spec/template/spec", 15),
            _ => continue,
        };
        let Some(spec) = object.pointer_mut(spec).filter(|_| rng.percent(percent)) else { continue };
        for _ in 0..rng.between(1, 2) {
            let mut volume = rng.pick(&shared).clone();
            if rng.percent(30) {
                volume = disk(rng);
            }
            match spec.get_mut("volumes").and_then(Value::as_array_mut) {
                Some(volumes) if volumes.iter().all(|known| known["name"] != volume["name"]) => volumes.push(volume),
                Some(_) => {}
                None => spec["volumes"] = json!([volume]),
            }
        }
    }
}
