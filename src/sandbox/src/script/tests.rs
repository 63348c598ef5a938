//! The story keeps what its scenes promise.

use std::time::Duration;

use crate::{Ended, Line, Options, run, story_catalogue};

/// The lines of the whole story, scene by scene, without their times: its heading, and what came of it.
async fn scenes() -> Vec<(String, Vec<String>)> {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    // What settles between two scenes does not end the story.
    let options = Options { story: true, settle: true, catalogue: story_catalogue().unwrap(), ..Options::new(now) };
    let mut scenes: Vec<(String, Vec<String>)> = Vec::new();
    let tell = |line: &Line| match (line.message.strip_prefix("── "), scenes.last_mut()) {
        (Some(heading), _) => scenes.push((heading.to_owned(), Vec::new())),
        (None, Some((_, lines))) => lines.push(line.message.clone()),
        (None, None) => scenes.push((String::new(), vec![line.message.clone()])),
    };
    let limit = tokio::time::sleep(Duration::from_secs(900));
    let ended = Box::pin(run(options, tell, limit)).await.unwrap();
    assert_eq!(ended, Ended::Settled, "{scenes:#?}");
    scenes
}

#[tokio::test(start_paused = true)]
async fn the_story_keeps_its_promises() {
    let scenes = scenes().await;
    let scene = |begins: &str| {
        let found = scenes.iter().find(|(heading, _)| heading.starts_with(begins));
        &found.unwrap_or_else(|| panic!("no scene {begins:?}: {scenes:#?}")).1
    };
    let launches = |begins: &str| -> Vec<&str> {
        let lines = scene(begins).iter().map(String::as_str);
        lines.filter(|line| line.contains(" launched") || line.contains(" pending → ")).collect()
    };
    let late = scenes.iter().flat_map(|(_, lines)| lines).find(|line| line.contains("takes longer"));
    assert_eq!(late, None, "{scenes:#?}");
    assert_eq!(
        launches("A Deployment of 12 pods"),
        ["12 pods pending → 4 nodes: 4 × m5.xlarge on cr-web; all nodes $0.00/h"]
    );
    assert_eq!(
        launches("Two pods more"),
        ["2 pods pending → 1 node: 1 × m5.xlarge on-demand in port-1a; all nodes $0.192/h"]
    );
    // The slots that came back in the scene before are used, though they were counted before that.
    let [bought] = launches("The cloud has no m5.xlarge left")[..] else { panic!("{scenes:#?}") };
    assert!(bought.starts_with("20 pods pending → ") && bought.contains("4 × m5.xlarge on cr-web"), "{bought}");
    assert!(!bought.contains("m5.xlarge on-demand"), "{bought}");
    assert!(
        scene("Down to six").iter().any(|line| line.contains("1 node → other nodes: $0.1920/h saved")),
        "{scenes:#?}"
    );
    // Nothing is bought and moved back.
    let moved = |begins: &str| scene(begins).iter().any(|line| line.contains("move"));
    assert!(!moved("The cloud has no m5.xlarge left"), "{scenes:#?}");
    assert!(moved("Three m5.xlarge more are paid for"), "{scenes:#?}");
    let last = scene("The work is done").last().unwrap();
    assert!(last.contains("gone") || last.starts_with("reservation cr-web: 0 of 7"), "{last}");
}
