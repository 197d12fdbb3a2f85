//! Which directory may be served: one that holds no file of the product.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Missing parts and dangling links gone through for one file of the product; more are taken for a loop.
const MAX_STEPS: usize = 256;

/// Why a directory is not served as the sandbox.
#[derive(Debug, Error)]
pub enum RootError {
    /// It is missing and could not be created, or it is no directory.
    #[error("the sandbox root `{}` is not usable: {source}; give a directory that this user may write to", .root.display())]
    Unusable {
        /// The root as it was given.
        root: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It contains a file of the product, which a served tool could then read or change.
    #[error(
        "the sandbox root `{}` contains `{}`, which belongs to the product; serve another directory or move the file out of it",
        .root.display(), .file.display()
    )]
    ContainsProductFile {
        /// The root as it was given.
        root: PathBuf,
        /// The file as it was given.
        file: PathBuf,
    },
    /// Where a file of the product is could not be found out, so the root may contain it.
    #[error("whether the sandbox root contains `{}` could not be found out: {source}; nothing is served", .file.display())]
    Unknown {
        /// The file as it was given.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Refuses `root` if it contains any of `product_files` (database, policy, server list, keys, log, `.env`, the
/// binary); creates it if it is missing. Files are compared by what they are: through links, by device
/// and inode of every directory above them, and under any further name (hard link) inside the root. A file that does
/// not exist yet counts as being where it would be created. A directory may be given as well.
///
/// # Errors
///
/// [`RootError`] if the root is unusable, contains one of the files, or if that cannot be found out.
pub fn check_root(root: &Path, product_files: &[PathBuf]) -> Result<(), RootError> {
    let unusable = |source| RootError::Unusable { root: root.to_owned(), source };
    fs::create_dir_all(root).map_err(unusable)?;
    let real_root = root.canonicalize().map_err(unusable)?;
    let identity = Identity::of(&fs::metadata(&real_root).map_err(unusable)?);
    for file in product_files {
        let contained = contains(&real_root, identity, file)
            .map_err(|source| RootError::Unknown { file: file.clone(), source })?;
        if contained {
            return Err(RootError::ContainsProductFile { root: root.to_owned(), file: file.clone() });
        }
    }
    Ok(())
}

/// One file or directory, under whatever name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

fn contains(root: &Path, root_identity: Identity, file: &Path) -> io::Result<bool> {
    let place = nearest_existing(file)?;
    for above in place.ancestors() {
        if Identity::of(&fs::metadata(above)?) == root_identity {
            return Ok(true);
        }
    }
    let metadata = fs::metadata(&place)?;
    Ok(metadata.is_file() && metadata.nlink() > 1 && holds(root, Identity::of(&metadata))?)
}

/// The real path of `file`, or of the nearest directory above it that exists.
fn nearest_existing(file: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(file)?;
    for _ in 0..MAX_STEPS {
        match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found_or_failed => return found_or_failed,
        }
        // `x/..` with no `x` is nowhere: not even the place above it may be taken for it.
        let (Some(above), Some(_)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its path goes up from what does not exist"));
        };
        path = match fs::read_link(&path) {
            // A link to what does not exist yet: the file would be created where it points.
            Ok(target) => above.join(target),
            Err(_) => above.to_owned(),
        };
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "its path has too many parts and links that do not exist",
    ))
}

/// Whether any name below `root` is this very file. Directories and files that this process may not look at are
/// passed over: the server, which runs as the same user, may not either.
fn holds(root: &Path, wanted: Identity) -> io::Result<bool> {
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let Some(entries) = unless_out_of_reach(fs::read_dir(directory))? else { continue };
        for entry in entries {
            let entry = entry?;
            let Some(metadata) = unless_out_of_reach(entry.metadata())? else { continue };
            if Identity::of(&metadata) == wanted {
                return Ok(true);
            }
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(false)
}

fn unless_out_of_reach<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
