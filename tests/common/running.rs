//! A daemon that runs in this process.

use assayd::config::Config;
use assayd::decide::Desk;
use assayd::pipeline::{Addresses, App, Assayer, Ended, StartError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A daemon that runs.
pub struct Running {
    /// Where it listens.
    pub at: Addresses,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<Ended, StartError>>,
}

impl Running {
    /// Starts it with this decision model; returns when it listens.
    pub async fn start(config: Config, desk: Desk) -> Self {
        let assayer = Assayer::new(&config, desk, None).unwrap();
        let app = App::bind_with(config, assayer).await.unwrap();
        let at = app.addresses();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(app.run(async move {
            let _ = stopped.await;
        }));
        Self { at, stop, ended }
    }

    /// Asks it to stop; gives how it ended.
    pub async fn stop(self) -> Ended {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap()
    }
}
