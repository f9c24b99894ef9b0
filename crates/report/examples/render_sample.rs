//! Writes the tests' sample run as `sample.html`, `sample.json` and `sample.txt` into the folder that is given, to look
//! at: `cargo run -p tollgate-report --example render_sample -- FOLDER`.

use std::error::Error;
use std::path::PathBuf;

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("give the folder to write into")?;
    let run = sample::run();
    tollgate_report::write_file(
        &folder.join("sample.html"),
        tollgate_report::html::render(&run),
    )?;
    tollgate_report::write_file(
        &folder.join("sample.txt"),
        tollgate_report::terminal::render(
            &run,
            tollgate_report::terminal::Detail::Whole,
            120,
            true,
        ),
    )?;
    tollgate_report::json::write(&run, &folder.join("sample.json"))?;
    Ok(())
}
