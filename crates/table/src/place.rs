//! Where tables are kept: in a folder, or in a bucket that is spoken to as to S3.
//!
//! Owns how a place is named and reached. Keys, region and endpoint of a bucket come from the environment, in the variables
//! that other tools use: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`. Must never know what
//! is kept there.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectStore, RetryConfig};

use crate::Error;

const SCHEME: &str = "s3://";
/// How often, and how long, a request is tried again that might succeed then.
const RETRIES: usize = 3;
const RETRIES_FOR: Duration = Duration::from_secs(20);

/// A folder, or a bucket with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A folder of this machine.
    Folder(PathBuf),
    /// `s3://BUCKET/PREFIX`.
    Bucket {
        /// Its name.
        bucket: String,
        /// What all names begin with, without a slash at either end; it may be empty.
        prefix: String,
    },
}

impl FromStr for Place {
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "{SCHEME}{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "{SCHEME}{bucket}/{prefix}"),
        }
    }
}

/// A place that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) place: Place,
    /// What is kept there, by keys below [`Self::root`].
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// What keys begin with.
    pub(crate) root: Key,
}

impl Place {
    /// Opens the place. A folder has to be there; whether a bucket is shows when it is used.
    pub(crate) fn open(&self) -> Result<Opened, Error> {
        let failed = |source| Error::Place {
            what: "open",
            place: self.to_string(),
            source,
        };
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
                let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
                if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
                    builder = builder.with_allow_http(true);
                }
                (Arc::new(builder.build().map_err(failed)?), prefix.as_str())
            }
        };
        let root = Key::parse(root).map_err(|error| failed(error.into()))?;
        Ok(Opened {
            place: self.clone(),
            objects,
            root,
        })
    }
}

impl Opened {
    /// The key of a name below the root, its parts parted by slashes.
    pub(crate) fn key(&self, name: &str) -> Key {
        name.split('/')
            .fold(self.root.clone(), |key, part| key.join(part))
    }

    /// The names of all that is kept there, below the root.
    pub(crate) async fn names(&self) -> Result<Vec<String>, object_store::Error> {
        let mut listed = self.objects.list(Some(&self.root));
        let mut names = Vec::new();
        while let Some(found) =
            std::future::poll_fn(|context| listed.as_mut().poll_next(context)).await
        {
            let key = found?.location;
            if let Some(parts) = key.prefix_match(&self.root) {
                let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
                names.push(parts.join("/"));
            }
        }
        names.sort();
        Ok(names)
    }

    /// What is kept under a name; nothing when there is none.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, object_store::Error> {
        match self
            .objects
            .get_opts(&self.key(name), Default::default())
            .await
        {
            Ok(found) => Ok(Some(found.bytes().await?.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps this under a name, whole or not at all.
    pub(crate) async fn write(
        &self,
        name: &str,
        octets: Vec<u8>,
    ) -> Result<(), object_store::Error> {
        let key = self.key(name);
        self.objects
            .put_opts(&key, octets.into(), Default::default())
            .await?;
        Ok(())
    }

    /// The address of a name for queries.
    pub(crate) fn url(&self, name: &str) -> Result<String, Error> {
        match &self.place {
            Place::Folder(folder) => absolute(&folder.join(name)),
            Place::Bucket { bucket, .. } => Ok(format!("{SCHEME}{bucket}/{}", self.key(name))),
        }
    }
}

/// The whole path of a file as text.
pub(crate) fn absolute(path: &Path) -> Result<String, Error> {
    let absolute = std::path::absolute(path).map_err(|source| Error::File {
        what: "find",
        path: path.to_owned(),
        source,
    })?;
    Ok(absolute.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written_alike() {
        for (given, shown) in [
            ("runs", "runs"),
            ("/a/b/", "/a/b/"),
            ("s3://fleet", "s3://fleet"),
            ("s3://fleet/", "s3://fleet"),
            ("s3://fleet/net/runs/", "s3://fleet/net/runs"),
        ] {
            let Ok(place) = given.parse::<Place>();
            assert_eq!(place.to_string(), shown);
        }
    }
}
