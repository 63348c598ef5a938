//! Nodes whose NodeClaims say how long their pods may keep them.

use super::*;

/// `terminationGracePeriod` says how long pods may keep a node that is to go: then they keep none that drifted, as in Karpenter.
#[test]
fn pods_keep_no_drifted_node_whose_claim_ends_their_stay() {
    let kept: [(Value, Vec<Object>); 2] = [
        (json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}), Vec::new()),
        (
            json!({}),
            vec![super::survey::guard(
                "guard",
                "pa",
                &json!({"disruptionsAllowed": 0, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1}),
            )],
        ),
    ];
    for (more, others) in kept {
        for (grace, annotation, expected) in [
            (None, "false", vec![]),
            (Some("5m"), "false", vec!["0 Drift a > small spot $0.1200"]),
            // What is said of the node itself holds.
            (Some("5m"), "true", vec![]),
        ] {
            let mut objects = vec![free_pool(&["spot"]), node("a", "small", "on-demand")];
            objects.push(pod("pa", "a", "1500m", &more));
            objects.extend(others.clone());
            let Object::NodeClaim(claim) = claim_of("a", "2026-01-01T08:00:00Z", "Never") else {
                panic!("a NodeClaim")
            };
            let mut written = serde_json::to_value(&*claim).unwrap();
            let node = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": annotation}}});
            merge(&mut written, &node);
            merge(&mut written, &json!({"spec": {"terminationGracePeriod": grace}}));
            objects.push(Object::from(typed::<berth_api::NodeClaim>(written)));
            let disruption = disrupted(&objects, &[], &Options::default());
            assert_eq!(lines(&disruption), expected, "{grace:?}, {annotation}, {more}");
            if expected.is_empty() {
                assert!(!reasons(&disruption, "a").is_empty());
            }
            // To save money it is not taken.
            let budgets = json!({"budgets": [{"nodes": "100%"}, {"nodes": "0", "reasons": ["Drifted"]}]});
            objects[0] = pool("pool", &budgets, &["spot"]);
            assert_eq!(lines(&disrupted(&objects, &[], &Options::default())), Vec::<String>::new());
        }
    }
}
