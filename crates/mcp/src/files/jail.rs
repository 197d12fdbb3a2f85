//! Path confinement on an opened directory handle.
//!
//! A path is walked one name at a time. Every step is relative to the handle of the directory reached so
//! far, and that handle was reached from the root's handle: there is no moment at which a whole path is
//! handed to the operating system. `..` goes back to the handle that led here and has nowhere to go from the root.
//! Links are read and walked the same way, so one that stays inside works and one that leaves is refused.
//! Each single step goes through cap-std, which does not leave the directory it is given: a name that
//! becomes a link between the look and the use leads at worst elsewhere in that directory.
//!
//! Text decides nothing but refusals. The one comparison of text (an absolute link, which starts with the
//! root's own path) only chooses what to walk from the root's handle.

mod path;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};

use super::error::FileError;
pub(super) use path::{MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES};
use path::{Part, Request};

/// Links followed for one path; more are taken for a loop. Linux has the same limit.
pub(super) const MAX_LINKS: usize = 40;

/// The sandbox: a handle on its root, and nothing that could reach above it.
pub(super) struct Jail {
    root: Dir,
    /// The absolute paths by which the root is known, to recognise absolute links back into it.
    spellings: [PathBuf; 2],
}

/// What to do when the last name of a path is a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    /// Go where it points.
    Follow,
    /// Stop at the link itself.
    Keep,
}

/// Where a path leads, as handles.
pub(super) enum Place {
    Directory(Dir),
    Entry(Entry),
    Missing(Missing),
}

/// Something that is not a directory: a name in an opened directory.
pub(super) struct Entry {
    pub(super) dir: Dir,
    pub(super) name: OsString,
    pub(super) metadata: Metadata,
}

/// A name that does not exist yet, with the directories on the way that do not exist either.
pub(super) struct Missing {
    dir: Dir,
    parents: Vec<OsString>,
    name: OsString,
}

impl Jail {
    /// Opens the directory `root`, which may be reached through a link or be written with a trailing slash.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let spellings = [std::path::absolute(root)?, root.canonicalize()?];
        Ok(Self { root: Dir::open_ambient_dir(root, ambient_authority())?, spellings })
    }

    /// Walks `path` from the root's handle. Creates nothing, and looks at nothing outside the root.
    pub(super) fn resolve(&self, path: &str, last_link: LastLink) -> Result<Place, FileError> {
        let request = Request::parse(path)?;
        let keep_last_link = last_link == LastLink::Keep && !request.names_directory;
        let failed = |error| FileError::from_io(path, error);

        let mut opened: Vec<Dir> = Vec::new();
        let mut links = 0;
        // The next part is at the end, so that a link's own parts go before the rest of the path.
        let mut ahead: Vec<Part> = request.parts.into_iter().rev().collect();
        while let Some(part) = ahead.pop() {
            let Part::Name(name) = part else {
                opened.pop().ok_or(FileError::Outside)?;
                continue;
            };
            let here = opened.last().unwrap_or(&self.root);
            let metadata = match here.symlink_metadata(&name) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !request.names_directory => {
                    if opened.len() + ahead.len() > MAX_DEPTH {
                        return Err(FileError::TooDeep);
                    }
                    let dir = here.try_clone().map_err(failed)?;
                    return Missing::new(dir, name, ahead).map(Place::Missing).ok_or_else(|| failed(error));
                }
                Err(error) => return Err(failed(error)),
            };
            if metadata.is_symlink() && !(keep_last_link && ahead.is_empty()) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(FileError::TooManyLinks);
                }
                let target = here.read_link_contents(&name).map_err(failed)?;
                let target = path::link_target(&target, &self.spellings).ok_or(FileError::Outside)?;
                if target.from_root {
                    opened.clear();
                }
                ahead.extend(target.parts.into_iter().rev());
            } else if metadata.is_dir() {
                if opened.len() == MAX_DEPTH {
                    return Err(FileError::TooDeep);
                }
                let next = here.open_dir(&name).map_err(failed)?;
                opened.push(next);
            } else if ahead.is_empty() && !request.names_directory {
                let dir = here.try_clone().map_err(failed)?;
                return Ok(Place::Entry(Entry { dir, name, metadata }));
            } else {
                return Err(FileError::NotDirectory(path.to_owned()));
            }
        }
        opened.pop().map_or_else(|| self.root.try_clone(), Ok).map(Place::Directory).map_err(failed)
    }
}

impl Missing {
    /// None if the path goes up again after the missing name: that leads nowhere.
    fn new(dir: Dir, first: OsString, mut ahead: Vec<Part>) -> Option<Self> {
        ahead.push(Part::Name(first));
        let mut names = Vec::with_capacity(ahead.len());
        while let Some(part) = ahead.pop() {
            let Part::Name(name) = part else { return None };
            names.push(name);
        }
        names.pop().map(|name| Self { dir, parents: names, name })
    }

    /// Creates the missing directories, each durable before the next, and returns the directory in which
    /// the name is to be.
    pub(super) fn create_parents(self) -> io::Result<(Dir, OsString)> {
        let mut dir = self.dir;
        for parent in &self.parents {
            match dir.create_dir(parent) {
                Ok(()) => sync(&dir)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            dir = dir.open_dir(parent)?;
        }
        Ok((dir, self.name))
    }
}

/// Makes the names in `dir` durable.
pub(super) fn sync(dir: &Dir) -> io::Result<()> {
    dir.open(".")?.sync_all()
}
