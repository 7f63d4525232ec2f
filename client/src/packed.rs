//! `Packing`: turns cached objects into a few hundred bytes each, and back.
//!
//! Nothing in client-go corresponds to it. A typed Pod takes about ten kilobytes, because every field of every container and
//! volume has its place. Objects of one collection resemble each other, so each is stored as its JSON, compressed with the first
//! packed object as the dictionary. Each reader gets a copy that was decoded for it.

use crate::cached::{AnyCached, Codec};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes before the compressed ones that give the length of the JSON.
const LENGTH: usize = size_of::<u32>();
/// What the streams add to data that cannot be compressed, besides a few bytes for each block.
const SLACK: usize = 64;

/// The packed form of an object. Only the packer that made it can read it. Equal objects have equal bytes.
pub(crate) type Packed = Arc<[u8]>;

/// Which objects of a store stay whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    /// A store of no more objects packs none.
    pub least: usize,
    /// The objects of all changes before so many, the last ones, are packed at once.
    pub most: usize,
    /// Time between two sweeps. A sweep packs the objects that were neither changed nor read since the one before.
    pub sweep_every: Option<Duration>,
}

impl Whole {
    /// The objects of the last changes, and no others.
    pub(crate) fn at_most(changes: usize) -> Self {
        Self { least: changes, most: changes, sweep_every: None }
    }
}

/// How a store packs its objects.
pub(crate) struct Packing {
    codec: Codec,
    pub whole: Whole,
    /// Made for the first object that is packed.
    packer: OnceLock<Packer>,
}

impl Packing {
    pub(crate) fn new(codec: Codec, whole: Whole) -> Self {
        Self { codec, whole, packer: OnceLock::new() }
    }

    pub(crate) fn pack(&self, object: &dyn AnyCached) -> Packed {
        self.packer.get_or_init(|| Packer::new(self.codec, object)).pack(object)
    }

    pub(crate) fn unpack(&self, packed: &Packed) -> Arc<dyn AnyCached> {
        self.packer.get().expect("a packer has packed it").unpack(packed)
    }
}

/// Packs the objects of one store.
struct Packer {
    codec: Codec,
    /// JSON of the first object.
    dictionary: Box<[u8]>,
    compress: Mutex<Compress>,
}

impl Packer {
    /// Makes a packer for objects like this one.
    fn new(codec: Codec, like: &dyn AnyCached) -> Self {
        let compress = Mutex::new(Compress::new(Compression::default(), false));
        Self { codec, dictionary: like.json().into(), compress }
    }

    fn pack(&self, object: &dyn AnyCached) -> Packed {
        let json = object.json();
        let length = u32::try_from(json.len()).expect("an object is no larger than a request");
        let mut packed = Vec::with_capacity(LENGTH + json.len() + json.len() / 1000 + SLACK);
        packed.extend(length.to_le_bytes());
        let mut compress = self.compress.lock();
        compress.reset();
        compress.set_dictionary(&self.dictionary).expect("a new stream takes a dictionary");
        let status = compress.compress_vec(&json, &mut packed, FlushCompress::Finish);
        assert_eq!(status.ok(), Some(Status::StreamEnd), "the buffer has room for everything");
        packed.into()
    }

    fn unpack(&self, packed: &Packed) -> Arc<dyn AnyCached> {
        let (length, compressed) =
            packed.split_first_chunk::<LENGTH>().expect("every packed object begins with a length");
        let mut json = Vec::with_capacity(u32::from_le_bytes(*length) as usize + SLACK);
        let mut decompress = Decompress::new(false);
        decompress.set_dictionary(&self.dictionary).expect("a new stream takes a dictionary");
        let status = decompress.decompress_vec(compressed, &mut json, FlushDecompress::Finish);
        assert_eq!(status.ok(), Some(Status::StreamEnd), "this packer has compressed it");
        (self.codec.decode)(&json).expect("an object can be read as it was written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached::{Cached, DynamicObject, typed_ref};
    use proptest::prelude::*;
    use proto::kinds::Kind;
    use proto::kinds::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(name: &str, labels: &Value) -> Pod {
        Pod::decode_value(json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "5",
                         "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels},
            "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "nginx"}]},
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:01Z", "podIP": "10.0.0.1"},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_like_the_first_takes_little() {
        let packer = Packer::new(Codec::of::<Pod>(), &pod("web-1", &json!({"app": "web"})));
        let other = pod("web-2", &json!({"app": "web"}));
        let packed = packer.pack(&other);
        assert!(packed.len() < 100, "{} bytes", packed.len());
        assert_eq!(typed_ref::<Pod>(&*packer.unpack(&packed)), &other);
    }

    proptest! {
        /// Whatever the first object was, and however little a text can be compressed, it comes back.
        #[test]
        fn every_object_comes_back(
            first in ".{0,40}",
            times in 0_usize..1500,
            text in "\\PC{0,2000}",
            keys in prop::collection::btree_map("[a-z]{1,8}", ".{0,20}", 0..20),
        ) {
            let object = |value: Value| DynamicObject::decode(value.to_string().as_bytes()).unwrap();
            let packer = Packer::new(Codec::of::<DynamicObject>(), &object(json!({"metadata": {"name": first.repeat(times)}})));
            let object = object(json!({"metadata": {"name": "x", "labels": keys}, "text": text}));
            let unpacked = packer.unpack(&packer.pack(&object));
            prop_assert_eq!(typed_ref::<DynamicObject>(&*unpacked), &object);
        }
    }
}
