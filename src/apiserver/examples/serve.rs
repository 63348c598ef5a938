//! Serves an empty cluster over HTTPS on loopback, prints a kubeconfig, and stops when standard input closes.

use std::io::Read;

use berth_apiserver::listener::Listener;
use berth_apiserver::{ApiServer, Config};
use berth_controller_manager::{Clock, ControllerManager, Options};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let epoch = std::time::SystemTime::now().try_into()?;
    let server = ApiServer::new(Config { epoch, seed: 1, ..Config::default() });
    let listener = Listener::start(server.clone(), "127.0.0.1:0".parse()?).await?;
    let client = kube::Client::new(server.clone(), "default");
    let manager = ControllerManager::new(client, Options::new(Clock::new(move || server.now())));
    tokio::spawn(manager.run(std::future::pending()));
    if let Some(warning) = listener.exposure() {
        eprintln!("warning: {warning}");
    }
    println!("{}", listener.kubeconfig());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}
