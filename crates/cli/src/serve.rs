//! `tollgate serve`: the other end for clients of ours on other hosts, or services for any client.
//!
//! It says what it does; what it does is in `tollgate-workload` and `tollgate-service`.

pub(crate) mod args;
mod services;

use std::process::ExitCode;

use tollgate_run::Host;
use tollgate_workload::remote::{Server, Service};

use crate::args::GlobalArgs;
use crate::error::Error;
use crate::measure::tool_words;
use crate::{interrupt, output};
use args::Serve;

/// Serves until Ctrl-C, which ends it in good order.
pub(crate) fn run(serve: &Serve, global: &GlobalArgs) -> Result<ExitCode, Error> {
    serve.check()?;
    tollgate_link::host::raise_descriptor_limit();
    if serve.has_services() {
        return services::run(serve, global);
    }
    let token = serve.token();
    let open = token.is_none();
    let service = Service {
        token,
        once: serve.once,
        tool: tool_words(),
        host: serde_json::to_value(Host::read())?,
    };
    let server = Server::listen(serve.listen(), service)?;
    let cancel = interrupt::prepare()?;
    let address = server.address();
    if !global.quiet {
        let whom = match (address.ip().is_loopback(), open) {
            (true, _) => "clients of this host only; --listen ADDRESS lets others in",
            (false, true) => "whoever reaches it; --token TOKEN keeps strangers out",
            (false, false) => "clients with the token",
        };
        output::print(&format!("waiting at {address} for {whom}\n"))?;
    }
    server.serve(&|| cancel.is_raised(), &|notice| {
        if !global.quiet {
            // A reader that has gone away does not keep clients from being served.
            let _ = output::print(&format!("{notice}\n"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
