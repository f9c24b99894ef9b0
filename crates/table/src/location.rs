//! Locations of tables: a folder, or a bucket behind the S3 protocol.
//!
//! Owns how a location is named and reached. Keys, region and endpoint of a bucket come from the environment, in the variables
//! that other tools use: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`. Must never know what
//! is kept there.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig,
};
use tokio::runtime::Runtime;

use crate::{Error, bucket, queries};

const SCHEME: &str = "s3://";
/// Most retries of a request that may yet succeed, and the longest time for them.
const RETRIES: usize = 3;
const RETRIES_FOR: Duration = Duration::from_secs(20);
/// Most reads at a time: each takes a connection.
const AT_ONCE: usize = 16;
/// Bytes of a part of a large object. A bucket takes 10,000 parts of at least 5 MiB, all but the last of one size.
const PART: usize = 8 << 20;

/// A folder, or a bucket with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder of this machine.
    Folder(PathBuf),
    /// `s3://BUCKET/PREFIX`.
    Bucket {
        /// Its name.
        bucket: String,
        /// The prefix of all names, without a slash at either end; it may be empty.
        prefix: String,
    },
}

impl FromStr for Location {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix(SCHEME) {
            None => Self::Folder(PathBuf::from(text)),
            Some(rest) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                Self::Bucket {
                    bucket: bucket.to_owned(),
                    prefix: prefix.trim_matches('/').to_owned(),
                }
            }
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "{SCHEME}{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "{SCHEME}{bucket}/{prefix}"),
        }
    }
}

/// A location that is open.
#[derive(Debug)]
pub(crate) struct OpenLocation {
    location: Location,
    /// The objects there, by keys below [`Self::root`].
    objects: Arc<dyn ObjectStore>,
    /// The prefix of all keys.
    root: Key,
    /// The server of a bucket.
    endpoint: String,
    runtime: Runtime,
}

/// The server where no other is named.
const AMAZON: &str = "Amazon S3";

impl Location {
    /// Opens the location. A folder has to be there; whether a bucket is shows when it is used.
    pub(crate) fn open(&self) -> Result<OpenLocation, Error> {
        let failed = |source| Error::Location {
            what: "open",
            location: self.to_string(),
            source,
        };
        let mut endpoint = AMAZON.to_owned();
        let (objects, root): (Arc<dyn ObjectStore>, &str) = match self {
            Self::Folder(folder) => {
                let folder = LocalFileSystem::new_with_prefix(folder).map_err(failed)?;
                (Arc::new(folder), "")
            }
            Self::Bucket { bucket, prefix } => {
                let mut builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_retry(RetryConfig {
                        max_retries: RETRIES,
                        retry_timeout: RETRIES_FOR,
                        ..RetryConfig::default()
                    });
                // Whoever names an endpoint without TLS wants to use it.
                if let Some(named) = builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
                    endpoint = named;
                }
                if endpoint.starts_with("http://") {
                    builder = builder.with_allow_http(true);
                }
                (Arc::new(builder.build().map_err(failed)?), prefix.as_str())
            }
        };
        let root = Key::parse(root).map_err(|error| failed(error.into()))?;
        Ok(OpenLocation {
            location: self.clone(),
            objects,
            root,
            endpoint,
            runtime: queries::threads()?,
        })
    }
}

/// A future's outcome.
type Outcome<T> = Result<T, object_store::Error>;

impl OpenLocation {
    /// The location.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// The key of a name below the root, its parts parted by slashes.
    fn key(&self, name: &str) -> Key {
        name.split('/')
            .fold(self.root.clone(), |key, part| key.join(part))
    }

    /// Waits for what is done with the location; what goes wrong is an error of it.
    fn wait<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = Outcome<T>>,
    ) -> Result<T, Error> {
        self.runtime.block_on(work).map_err(self.failed(what))
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(object_store::Error) -> Error + use<> {
        let location = self.location.to_string();
        let bucket = match &self.location {
            Location::Folder(_) => None,
            Location::Bucket { bucket, .. } => Some((bucket.clone(), self.endpoint.clone())),
        };
        move |source| match bucket {
            Some((bucket, endpoint)) if bucket::is_missing(&source) => Error::NoBucket {
                location,
                bucket,
                endpoint,
            },
            _ => Error::Location {
                what,
                location,
                source,
            },
        }
    }

    /// The error for what is not there: where the bucket itself is missing, that. Not every server says so when an object is read.
    pub(crate) fn without(&self, what: Error) -> Error {
        match self.listed() {
            Err(missing @ Error::NoBucket { .. }) => missing,
            _ => what,
        }
    }

    /// The names of all that is kept there, below the root.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        self.wait("list", async {
            let mut listed = self.objects.list(Some(&self.root));
            let mut names = Vec::new();
            while let Some(found) =
                std::future::poll_fn(|context| listed.as_mut().poll_next(context)).await
            {
                names.extend(self.below_root(&found?.location));
            }
            names.sort();
            Ok(names)
        })
    }

    /// Sees that there is something under each of these names, in one listing.
    pub(crate) fn see_each(&self, names: &[String]) -> Result<(), Error> {
        let there = self.names()?;
        match names.iter().find(|name| there.binary_search(name).is_err()) {
            Some(name) => Err(Error::NoTable(format!("{}/{name}", self.location))),
            None => Ok(()),
        }
    }

    /// The names of the directories right below the root, but for those that begin with a dot.
    pub(crate) fn directories(&self) -> Result<Vec<String>, Error> {
        let listed = self.listed()?;
        let mut names: Vec<String> = (listed.common_prefixes.iter())
            .filter_map(|key| self.below_root(key))
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Tells whether there is nothing but what begins with a dot.
    pub(crate) fn is_empty(&self) -> Result<bool, Error> {
        let listed = self.listed()?;
        let objects = listed.objects.iter().map(|object| &object.location);
        Ok((listed.common_prefixes.iter().chain(objects))
            .filter_map(|key| self.below_root(key))
            .all(|name| name.starts_with('.')))
    }

    /// Lists the objects and prefixes right below the root.
    fn listed(&self) -> Result<object_store::ListResult, Error> {
        self.wait("list", self.objects.list_with_delimiter(Some(&self.root)))
    }

    fn below_root(&self, key: &Key) -> Option<String> {
        let parts: Vec<String> = key
            .prefix_match(&self.root)?
            .map(|part| part.as_ref().to_owned())
            .collect();
        Some(parts.join("/"))
    }

    /// Reads the object with this name; none when there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let found = read(Arc::clone(&self.objects), self.key(name));
        self.wait("read", found)
    }

    /// Reads the objects with these names, in their order.
    pub(crate) fn read_each(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.wait("read", async {
            let mut found = Vec::new();
            for some in names.chunks(AT_ONCE) {
                let reads = some
                    .iter()
                    .map(|name| tokio::spawn(read(Arc::clone(&self.objects), self.key(name))));
                for one in reads.collect::<Vec<_>>() {
                    found.push(one.await??);
                }
            }
            Ok(found)
        })
    }

    /// Keeps this under a name, whole or not at all.
    pub(crate) fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let key = self.key(name);
        self.wait("write to", self.objects.put(&key, bytes.into()))?;
        Ok(())
    }

    /// Keeps this under a name under which nothing is kept yet; false when something is. Of several who try at once it is true for
    /// one, where the bucket knows the condition `If-None-Match`.
    pub(crate) fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool, Error> {
        let key = self.key(name);
        let options = PutOptions::from(PutMode::Create);
        let put = self.objects.put_opts(&key, bytes.into(), options);
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.failed("write to")(error)),
        }
    }

    /// Keeps what is in a file under a name, whole or not at all; false when `goes_on` wanted no more.
    pub(crate) fn upload(
        &self,
        name: &str,
        file: &mut File,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Error> {
        let key = self.key(name);
        self.wait("write to", async {
            file.rewind().map_err(unreadable)?;
            let first = next_part(file)?;
            if first.len() < PART {
                self.objects.put(&key, first.into()).await?;
                return Ok(true);
            }
            let mut upload = self.objects.put_multipart(&key).await?;
            match put_parts(&mut *upload, first, file, goes_on).await {
                Ok(true) => upload.complete().await.map(|_| true),
                stopped => {
                    // What was sent takes room until somebody says so; whether that arrives changes nothing for the caller.
                    let _ = upload.abort().await;
                    stopped
                }
            }
        })
    }

    /// Removes what is kept under this name, if anything is.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        let key = self.key(name);
        match self.runtime.block_on(self.objects.delete(&key)) {
            Ok(()) => Ok(()),
            Err(error @ object_store::Error::NotFound { .. }) if !bucket::is_missing(&error) => {
                Ok(())
            }
            Err(error) => Err(self.failed("remove from")(error)),
        }
    }

    /// The address of a name for queries.
    pub(crate) fn url(&self, name: &str) -> Result<String, Error> {
        match &self.location {
            Location::Folder(folder) => file_url(&folder.join(name)),
            Location::Bucket { bucket, .. } => Ok(format!("{SCHEME}{bucket}/{}", self.key(name))),
        }
    }

    /// Lets the queries of a context reach what is kept here.
    pub(crate) fn reached_by(&self, context: &SessionContext) -> Result<(), Error> {
        if let Location::Bucket { bucket, .. } = &self.location {
            let url = ObjectStoreUrl::parse(format!("{SCHEME}{bucket}"))?;
            context.register_object_store(url.as_ref(), Arc::clone(&self.objects));
        }
        Ok(())
    }

    /// Asks a context that reaches what is kept here.
    pub(crate) fn ask(&self, context: &SessionContext, sql: &str) -> Result<queries::Rows, Error> {
        self.runtime.block_on(queries::ask(context, sql))
    }
}

async fn read(objects: Arc<dyn ObjectStore>, key: Key) -> Outcome<Option<Vec<u8>>> {
    match objects.get(&key).await {
        Ok(found) => Ok(Some(found.bytes().await?.into())),
        Err(error @ object_store::Error::NotFound { .. }) if !bucket::is_missing(&error) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Sends a file from its `first` part on; false when `goes_on` wanted no more.
async fn put_parts(
    upload: &mut dyn MultipartUpload,
    first: Vec<u8>,
    file: &mut File,
    goes_on: &mut dyn FnMut() -> bool,
) -> Outcome<bool> {
    let mut part = first;
    while !part.is_empty() {
        if !goes_on() {
            return Ok(false);
        }
        upload.put_part(part.into()).await?;
        part = next_part(file)?;
    }
    Ok(true)
}

/// The next bytes of a file, fewer than [`PART`] only at its end.
fn next_part(file: &mut File) -> Outcome<Vec<u8>> {
    let mut part = Vec::new();
    file.take(PART as u64)
        .read_to_end(&mut part)
        .map_err(unreadable)?;
    Ok(part)
}

/// A file of ours that cannot be read again.
fn unreadable(error: std::io::Error) -> object_store::Error {
    object_store::Error::Generic {
        store: "temporary file",
        source: error.into(),
    }
}

/// The address of a file. A bare path would be taken for a pattern where it has one of `*?[`, and match nothing.
fn file_url(path: &Path) -> Result<String, Error> {
    let absolute = std::path::absolute(path).map_err(|source| Error::File {
        what: "find",
        path: path.to_owned(),
        source,
    })?;
    let mut url = "file://".to_owned();
    for byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            // RFC 3986, 2.3, and what parts names.
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(char::from(*byte));
            }
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_urls_hold_no_pattern() {
        let url = file_url(Path::new("/a b/[1]*?{c}#%20/ü~-_.x")).unwrap();
        assert_eq!(
            url,
            "file:///a%20b/%5B1%5D%2A%3F%7Bc%7D%23%2520/%C3%BC~-_.x"
        );
    }

    #[test]
    fn places_are_read_and_written_alike() {
        for (given, shown) in [
            ("runs", "runs"),
            ("/a/b/", "/a/b/"),
            ("s3://fleet", "s3://fleet"),
            ("s3://fleet/", "s3://fleet"),
            ("s3://fleet/net/runs/", "s3://fleet/net/runs"),
        ] {
            let Ok(location) = given.parse::<Location>();
            assert_eq!(location.to_string(), shown);
        }
    }
}
