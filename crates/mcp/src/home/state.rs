//! Where the house is kept: one JSON file in a folder, replaced as a whole under a lock, so that a crash or a second
//! server on the same folder never leaves half of one or loses a change.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::house::House;

/// The largest file that is read, in bytes; a full house is far smaller.
const MAX_BYTES: u64 = 1024 * 1024;
/// How long a change waits for another server's.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The state of the house cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HomeStateError {
    /// The system said no.
    #[error("the state of the home in `{}` cannot be used: {source}", .folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What stands there is not the state of a house.
    #[error("`{}` is not the state of a home ({why}); move it away to begin with a new one", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A folder that holds a house.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if it is not there.
    pub(super) fn open(folder: &Path) -> Result<Self, HomeStateError> {
        let this = Self(folder.to_owned());
        fs::create_dir_all(folder).map_err(|source| this.io(source))?;
        Ok(this)
    }

    /// The house in this folder; a new one if nothing was done yet.
    pub(super) fn read(folder: &Path) -> Result<House, HomeStateError> {
        let this = Self(folder.to_owned());
        let mut text = String::new();
        match File::open(this.file()) {
            Ok(file) => file.take(MAX_BYTES).read_to_string(&mut text).map_err(|source| this.io(source))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(House::default()),
            Err(error) => return Err(this.io(error)),
        };
        serde_json::from_str(&text)
            .map_err(|error| HomeStateError::Unreadable { file: this.file(), why: error.to_string() })
    }

    /// Reads the house.
    pub(super) fn look<T>(&self, look: impl FnOnce(&House) -> T) -> Result<T, HomeStateError> {
        Ok(look(&Self::read(&self.0)?))
    }

    /// Changes the house. What is refused changes nothing.
    pub(super) fn change<T, E>(
        &self,
        change: impl FnOnce(&mut House) -> Result<T, E>,
    ) -> Result<Result<T, E>, HomeStateError> {
        // Held until the end of this function.
        let _lock = self.lock().map_err(|source| self.io(source))?;
        let mut house = Self::read(&self.0)?;
        let done = change(&mut house);
        if done.is_ok() {
            self.write(&house).map_err(|source| self.io(source))?;
        }
        Ok(done)
    }

    fn lock(&self) -> io::Result<File> {
        let file = private().truncate(false).open(self.0.join("home.lock"))?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another server is changing it; nothing was done"))
    }

    /// Under the lock: the name of the new file is nobody else's.
    fn write(&self, house: &House) -> io::Result<()> {
        let new = self.0.join("home.json.new");
        let mut file = private().truncate(true).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(house)?)?;
        file.sync_all()?;
        fs::rename(&new, self.file())?;
        File::open(&self.0)?.sync_all()
    }

    fn file(&self) -> PathBuf {
        self.0.join("home.json")
    }

    fn io(&self, source: io::Error) -> HomeStateError {
        HomeStateError::Io { folder: self.0.clone(), source }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}
