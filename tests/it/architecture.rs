//! The walls of the house, as far as files can show them: who lists and names whom, what may occur once, and what a
//! template may hold. The compiler holds the others (`crates/*/tests/compile_fail`).

#![expect(clippy::string_slice, reason = "reads our own files; a slice that does not fit fails the test")]

mod manifests;
mod pages;
mod sources;

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder of the repository whose name has one of the endings, in order, with its text.
fn files(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root().join(folder)];
    folders.retain(|folder| folder.is_dir());
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if endings.iter().any(|ending| path.to_str().unwrap().ends_with(ending)) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The sources of the program and of the libraries, tests beside the code included.
fn sources() -> Vec<(String, String)> {
    let mut all = files("src", &[".rs"]);
    for package in ["policy", "gateway", "store", "mcp"] {
        all.extend(files(&format!("crates/{package}/src"), &[".rs"]));
    }
    assert!(all.len() > 100, "only {} files were found", all.len());
    all
}

/// The sources without their tests and comments.
fn product() -> Vec<(String, String)> {
    let mut all = sources();
    all.retain(|(name, _)| !name.ends_with("/tests.rs") && !name.contains("/tests/"));
    for (_, text) in &mut all {
        let cut = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
        let code = text[..cut].lines().filter(|line| !line.trim_start().starts_with("//"));
        *text = code.collect::<Vec<_>>().join("\n");
    }
    all
}
