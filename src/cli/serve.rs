//! `assayd serve`: the daemon.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Voice;
use crate::config;
use crate::config::Role;
use crate::pipeline::{App, Ended, Gateway};

/// Run the daemon: spans in over OTLP, verdicts out
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd serve                            OTLP on 127.0.0.1:4317 and :4318, verdicts to stdout
  assayd serve --config assayd.yaml       as a file says; `assayd config default` has every key
  assayd serve --model ./my-checkpoint    with another decision model
  assayd serve --role gateway             OTLP to the Kafka topic otlp_spans on localhost:9092
  assayd serve --role worker --config config/kafka.yaml
                                          from Kafka topics to verdicts
  curl -s 127.0.0.1:8321/v1/status        what it does; /metrics counts, / shows it in a browser

SIGTERM and SIGINT (Ctrl-C) stop it cleanly: open traces get their verdicts, sinks are flushed. A
second one stops it at once.

Exit codes: 0 stopped cleanly, 1 failed or gave up waiting, 64 the configuration is wrong.")]
pub struct Args {
    /// The configuration file; without it, the defaults (see `assayd config default`)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The decision model in place of the configured one; see `assayd config explain decide.model`
    #[arg(long)]
    model: Option<String>,
    /// What this process does, whatever the configuration says: `all`; or, with Kafka between the two, `gateway` (OTLP to
    /// Kafka) or `worker` (Kafka to verdicts)
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,
}

fn role(text: &str) -> Result<Role, String> {
    match text {
        "all" => Ok(Role::All),
        "gateway" => Ok(Role::Gateway),
        "worker" => Ok(Role::Worker),
        _ => Err("a role is all, gateway or worker".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut config = config::load_as(args.config.as_deref(), args.role)?;
    if let Some(model) = &args.model {
        config.decide.model = crate::decide::ModelName::parse(model);
    }
    super::log(&config.log, Voice::Full)?;
    super::count()?;
    super::runtime()?.block_on(async move {
        let signals = Signals::listen()?;
        if config.role == Role::Gateway {
            let gateway = Gateway::bind(config).await?;
            gateway.addresses().log();
            gateway.run(signals.first()).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let app = App::bind(config).await?;
        app.addresses().log();
        let ended = app.run(signals.first()).await?;
        Ok(match ended {
            Ended::Drained => ExitCode::SUCCESS,
            Ended::GaveUp { traces } => {
                tracing::error!(traces, "gave up waiting for open traces");
                ExitCode::FAILURE
            }
        })
    })
}

/// SIGINT and SIGTERM: the first one asks for a clean stop, the second one stops at once.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Ends with the first signal. From then on a second one ends the process with exit code 1.
    pub async fn first(mut self) {
        let name = self.next().await;
        tracing::info!(signal = name, "stopping; a second signal stops at once");
        tokio::spawn(async move {
            let name = self.next().await;
            tracing::error!(signal = name, "stopped at once");
            // Log lines are written by then; what is not emitted is lost, as a forced stop means.
            tokio::time::sleep(Duration::from_millis(50)).await;
            std::process::exit(1);
        });
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
