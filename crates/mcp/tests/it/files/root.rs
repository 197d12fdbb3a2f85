//! F34, the sandbox part: a root that contains a file of the product is refused. Guards against serving the database
//! or the policy to the very tools that they govern, by whatever path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sluicegate_mcp::{RootError, check_root};

use crate::sandbox::{Folder, command, in_time, link};

fn refused(root: impl AsRef<Path>, file: impl AsRef<Path>) -> bool {
    let elsewhere = root.as_ref().parent().unwrap().join("elsewhere.db");
    match check_root(root.as_ref(), &[elsewhere, file.as_ref().to_owned()]) {
        Ok(()) => false,
        Err(RootError::ContainsProductFile { file: named, .. }) => {
            assert_eq!(named, file.as_ref());
            true
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn f34_a_root_that_contains_a_product_file_is_refused() {
    let folder = Folder::new();
    let (root, home) = (&folder.root, folder.home.path());
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("there.db"), "").unwrap();
    link("root", home.join("root-link"));
    link("root/there.db", home.join("file-link"));
    link("root/not-there.db", home.join("dangling"));
    link("dangling", home.join("dangling-twice"));
    link(root.join("sub/none"), home.join("dangling-directory"));
    link("../outside", root.join("out"));
    link("none", root.join("inside-dangling"));

    let inside = [
        root.join("there.db"),
        root.join("not-there.db"),
        root.join("sub/not-there.db"),
        root.join("none/none/not-there.db"),
        root.join("sub/../there.db"),
        root.to_owned(),
        home.join("root-link/there.db"),
        home.join("root-link/not-there.db"),
        home.join("file-link"),
        home.join("dangling"),
        root.join("inside-dangling"),
        home.join("dangling-twice"),
        home.join("dangling-directory/x.db"),
        home.join("outside/../root/there.db"),
    ];
    let spellings =
        [root.to_owned(), home.join("root/"), home.join("root-link"), home.join("outside/../root")];
    for root in &spellings {
        for file in &inside {
            assert!(refused(root, file), "{} in {}", file.display(), root.display());
        }
    }
    let outside = [
        home.join("x.db"),
        home.join("root-evil/f"),
        home.join("root-evil/none"),
        home.join("root.db"),
        folder.outside.join("f"),
        // A link in the root to a place outside: the server does not follow it.
        root.join("out/f"),
        root.join("out/none"),
        home.to_owned(),
    ];
    for root in &spellings {
        for file in &outside {
            assert!(!refused(root, file), "{} in {}", file.display(), root.display());
        }
    }
}

#[test]
fn f34_a_product_file_with_a_second_name_in_the_root_is_found() {
    let folder = Folder::new();
    let database = folder.outside.join("f");
    fs::create_dir_all(folder.root.join("a/b")).unwrap();
    fs::hard_link(&database, folder.home.path().join("elsewhere")).unwrap();
    assert!(!refused(&folder.root, &database));
    fs::hard_link(&database, folder.root.join("a/b/innocent.txt")).unwrap();
    assert!(refused(&folder.root, &database));
}

#[test]
fn f34_what_cannot_be_found_out_is_refused() {
    let folder = Folder::new();
    let home = folder.home.path();
    link("circle", home.join("circle"));
    link("one/x", home.join("two"));
    link("two/x", home.join("one"));
    for file in ["circle", "circle/x.db", "two", "none/../root/x.db", "outside/f/x.db"] {
        let error = check_root(&folder.root, &[home.join(file)]).unwrap_err();
        assert!(matches!(error, RootError::Unknown { .. }), "{file}: {error}");
    }
}

#[test]
fn a_missing_root_is_created_and_an_unusable_one_is_refused() {
    let folder = Folder::new();
    let home = folder.home.path();
    let new = home.join("new/er/sandbox/");
    check_root(&new, &[home.join("sluicegate.db")]).unwrap();
    assert!(new.is_dir());
    check_root(&new, &[]).unwrap();
    fs::write(home.join("file"), "").unwrap();
    link("none", home.join("dangling"));
    for root in ["file", "file/below", "dangling"] {
        let error = check_root(&home.join(root), &[]).unwrap_err();
        assert!(matches!(error, RootError::Unusable { .. }), "{root}: {error}");
        assert!(error.to_string().contains(&format!("`{}`", home.join(root).display())));
    }
}

#[tokio::test]
async fn the_server_creates_its_root_and_refuses_one_with_its_own_binary() {
    let folder = Folder::new();
    let new = folder.home.path().join("created/by/server");
    let run = |root: PathBuf| in_time(command(root).stdin(Stdio::null()).output());
    let output = run(new.clone()).await.unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(new.is_dir());

    let program = PathBuf::from(command("x").as_std().get_program());
    let output = run(program.parent().unwrap().to_owned()).await.unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let noise = String::from_utf8(output.stderr).unwrap();
    assert!(noise.contains("ContainsProductFile"), "{noise}");
}
