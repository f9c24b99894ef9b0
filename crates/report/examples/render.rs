//! Writes the HTML page of a saved run, to look at: `cargo run -p tollgate-report --example render -- RUN.json FILE.html`.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(run), Some(page)) = (args.next(), args.next()) else {
        return Err("give the run and the file to write".into());
    };
    let run = tollgate_report::json::read(&run)?;
    tollgate_report::write_file(&page, tollgate_report::html::render(&run))?;
    Ok(())
}
