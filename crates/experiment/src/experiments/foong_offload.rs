//! `foong-offload`: what computing checksums and cutting segments in the device saves; after Foong et al. 2003, section 5.3.
//!
//! It takes a device whose features are the run's own to switch. Loopback's checksum offload is fixed, and its segmentation
//! belongs to everyone on the host, so nothing is switched there.

use super::foong_hz::{column, source};
use super::{Experiment, Reported};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::published;
use crate::run::{self, Cell, Source, Table, Unit};
use crate::shapes;
use crate::streams;

/// Offload on and off.
pub(super) struct FoongOffload;

/// Why nothing is switched.
const REASON: &str = "no path of this build has a device whose offload the run may switch: loopback's checksum offload is \
                      fixed, and its segmentation is the whole host's";

impl Experiment for FoongOffload {
    fn name(&self) -> &'static str {
        "foong-offload"
    }

    fn title(&self) -> &'static str {
        "Checksum and segmentation offload"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 14 and 15, section 5.3")
    }

    fn summary(&self) -> &'static str {
        "what offloading checksums and segmentation saves, where a device's features can be switched"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        0
    }

    fn concerns(&self, options: &Options) -> bool {
        !streams::stream_paths(options).is_empty()
    }

    fn run(&self, context: &mut Context<'_>) -> Result<run::Experiment, Error> {
        let missing = || Cell::NotAvailable {
            reason: REASON.to_owned(),
        };
        let then = published::fact("foong-2003/checksum-offload-gain").and_then(|fact| {
            let source = source(&format!("section {}", fact.place))?;
            Some(shapes::published_cell(Some(fact.value), &source))
        });
        let table = Table {
            id: "offload".to_owned(),
            title: "Processor time saved by the device".to_owned(),
            columns: vec![
                column("Today", Unit::Percent),
                column("2003", Unit::Percent),
            ],
            rows: vec![
                shapes::plain_row(
                    "Checksum, receive",
                    vec![missing(), then.unwrap_or_else(|| Cell::text("-"))],
                ),
                shapes::plain_row("Segmentation, transmit", vec![missing(), Cell::text("-")]),
            ],
        };
        Ok(run::Experiment {
            name: self.name().to_owned(),
            title: self.title().to_owned(),
            paper: self.paper(),
            finding: format!("Not available here: {REASON}."),
            command: shapes::command(self.name(), &context.options),
            tables: vec![table],
            figures: Vec::new(),
            trust: vec![shapes::warning(format!("nothing was measured: {REASON}"))],
        })
    }
}
