//! A run as people get it, with all experiments.

use flate2::read::GzDecoder;
use tollgate_run::Run;

/// A whole report: what `tollgate report` wrote on a virtual machine of two processors that changed its speed.
pub fn whole() -> Run {
    let file = GzDecoder::new(&include_bytes!("../fixtures/report.json.gz")[..]);
    serde_json::from_reader(file).expect("the fixture is a run")
}
