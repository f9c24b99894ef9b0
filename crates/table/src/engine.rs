//! Engines for queries: this machine, or a Ballista cluster.
//!
//! Any cluster of the version of `ballista` in Cargo.toml will do. Its executors read the files of the trace themselves, so they
//! have to see them under the same paths; what they do not have, our function `in_prefix`, is spelled out for them.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::config::BALLISTA_CLIENT_PULL;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::prefix::{self, spelled::Spelled};
use crate::{Error, cluster, queries};

const SCHEME: &str = "ballista://";
/// Default port of Ballista's scheduler.
const PORT: u16 = 50_050;
/// Longest time in which a scheduler accepts a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Engine that runs queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// On this machine.
    #[default]
    Here,
    /// On the cluster of a scheduler.
    Ballista(Scheduler),
}

/// Address of a scheduler of Ballista.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    host: String,
    port: u16,
}

/// The rejected text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown engine `{0}`; give it as ballista://HOST:PORT, or leave --engine out to ask on this machine"
)]
pub struct NoEngine(String);

impl FromStr for Engine {
    type Err = NoEngine;

    fn from_str(text: &str) -> Result<Self, NoEngine> {
        let wrong = || NoEngine(text.to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // Colons within brackets are those of an address of IPv6.
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (rest, PORT),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || !host.chars().all(plain) {
            return Err(wrong());
        }
        Ok(Self::Ballista(Scheduler {
            host: host.to_owned(),
            port,
        }))
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}", self.host, self.port)
    }
}

impl Scheduler {
    /// A context without tables whose queries run on the cluster.
    pub(crate) async fn context(&self) -> Result<SessionContext, Error> {
        self.answers()?;
        cluster::check(self).await?;
        // Ballista's adaptive planner (55.0.0) never ends a query one of whose executors was lost: "Can't find active stage to
        // update stage outputs". The other one gives its tasks to others.
        let mut config =
            SessionConfig::new_with_ballista().with_ballista_adaptive_query_planner(false);
        // A job that is asked for its state has its number at once. One that tells of it has it when a task ends, so never without
        // executors.
        config.options_mut().set(BALLISTA_CLIENT_PULL, "true")?;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .build();
        let context = SessionContext::remote_with_state(&self.to_string(), state).await?;
        context.register_udf(prefix::function());
        let spelled = Arc::new(Spelled::new()?);
        context
            .state_ref()
            .write()
            .register_function_rewrite(spelled)?;
        Ok(context)
    }

    /// Its host and its port, as in an address of HTTP.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Tells whether anybody listens there.
    pub(crate) fn answers(&self) -> Result<(), Error> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let connect = || {
            let mut last = std::io::ErrorKind::AddrNotAvailable.into();
            for address in (host, self.port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT) {
                    Ok(_) => return Ok(()),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        connect().map_err(|source| Error::Scheduler {
            scheduler: self.to_string(),
            source,
        })
    }

    /// Turns the error of a query into one that names the cluster.
    pub(crate) fn failed(&self, error: Error) -> Error {
        match error {
            Error::Query(source) => Error::Cluster {
                scheduler: self.to_string(),
                source,
            },
            other => other,
        }
    }
}

impl Engine {
    /// The columns of files as this engine is to read them: between the processes of a cluster, texts of which there are few
    /// different ones arrive as plain texts, and its plans have to expect them so.
    pub(crate) fn columns(&self, schema: SchemaRef) -> SchemaRef {
        match self {
            Self::Here => schema,
            Self::Ballista(_) => {
                let plain = schema.fields().iter().map(|field| match field.data_type() {
                    DataType::Dictionary(_, value) => {
                        Field::new(field.name(), (**value).clone(), field.is_nullable())
                    }
                    _ => field.as_ref().clone(),
                });
                Arc::new(Schema::new(plain.collect::<Vec<_>>()))
            }
        }
    }

    /// A context without tables.
    pub(crate) async fn context(&self) -> Result<SessionContext, Error> {
        match self {
            Self::Here => Ok(queries::context(SessionConfig::new())),
            Self::Ballista(scheduler) => scheduler.context().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_read() {
        let shown = |text: &str| match text.parse() {
            Ok(Engine::Ballista(scheduler)) => scheduler.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown("ballista://big:50050"), "ballista://big:50050");
        assert_eq!(shown("ballista://big"), "ballista://big:50050");
        assert_eq!(shown("ballista://10.0.0.1:7/"), "ballista://10.0.0.1:7");
        assert_eq!(shown("ballista://[::1]"), "ballista://[::1]:50050");
        assert_eq!(shown("ballista://[::1]:7"), "ballista://[::1]:7");
        for wrong in [
            "",
            "big:50050",
            "spark://big",
            "ballista://",
            "ballista://a:b",
            "ballista://a b",
        ] {
            assert!(wrong.parse::<Engine>().is_err(), "{wrong}");
        }
    }
}
