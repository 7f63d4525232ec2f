//! GET with `watch`: streams events as frames, which watches of the same form share.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/watch.go.

use super::Call;
use crate::answer;
use crate::media::Transform;
use crate::metrics::WatchMeters;
use crate::record;
use crate::request_log::{LogRow, Logged};
use crate::server::Server;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use cacher::{Change, FrameKey, WatchEvent, WatchFrom, WatchRequest, Watcher};
use component_base::env::Env;
use flow_control::watch_count::OpenWatch;
use futures::stream;
use http::Response;
use proto::resources::Target;
use proto::wire::field_order::{InOrder, TABLE};
use proto::wire::shown::{self, MetaVersion};
use proto::wire::table::{ColumnDefinitions, IncludeObject, Table};
use proto::wire::watch_frame::{BOOKMARK, ERROR, bookmark_meta, frame};
use proto::{Object, Status};
use registry::read::Selection;
use registry::row::Row;
use request::options::ListOptions;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    let form = call.stream_form()?;
    let options = ListOptions::read(&call.info.query)?;
    if !call.server.registry.gates.is_on("WatchList") {
        options.without_initial_events()?;
    }
    let name = (!call.info.name.is_empty()).then_some(call.info.name.as_str());
    let selection = Selection::of(target, call.namespace(target), name, &options)?;
    let version = options.version().map_err(|why| Status::failure(500, "", why))?;
    let server = call.server;
    let timeout =
        options.timeout_s.map_or_else(|| server.watch_timeout(), |s| Duration::from_secs(s.try_into().unwrap_or(0)));
    let request = WatchRequest {
        from: WatchFrom::of(version, options.send_initial_events),
        scope: selection.scope.clone(),
        predicate: selection.predicate(),
        bookmarks: options.allow_watch_bookmarks,
        initial_events_end: options.send_initial_events == Some(true),
        deadline: Some(server.env.now() + timeout),
    };
    let encoder = Encoder::of(call, target, form.transform)?;
    let row = server.registry.row(&target.row)?;
    let media_type = form.encoding.media_type();
    let watcher = match row.cacher.watch(request).await {
        Ok(watcher) => watcher,
        // An expired version is reported as an ERROR event in the stream, as in Kubernetes.
        Err(error @ cacher::Error::Expired { .. }) => {
            return Ok(answer::response(200, media_type, error_frame(&Status::from(registry::Error::from(error)))));
        }
        Err(error) => return Err(registry::Error::from(error).into()),
    };
    call.record.trace_watch();
    let meters = server.records.metrics.requests.watch(call.info);
    meters.open.inc();
    let stream = Stream {
        watcher: Some(watcher),
        encoder,
        row,
        server: server.clone(),
        meters,
        user: call.user.name.clone(),
        _open: server.flow_control.watch(call.info),
    };
    let mut response = answer::response(200, media_type, Bytes::new());
    *response.body_mut() = Body::from_stream(stream::unfold(stream, |mut stream| async move {
        let piece = stream.next().await?;
        Some((Ok::<_, Infallible>(piece), stream))
    }));
    Ok(response)
}

/// One open watch.
struct Stream {
    /// `None` once the end has been sent.
    watcher: Option<Watcher>,
    encoder: Encoder,
    row: Arc<Row>,
    server: Arc<Server>,
    meters: WatchMeters,
    user: String,
    /// Counts this watch as open: flow control estimates the work of a write by the watches that receive its event.
    _open: Option<OpenWatch>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.meters.open.dec();
    }
}

impl Stream {
    /// Returns the frames of the next events as one piece; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let watcher = self.watcher.as_mut()?;
        match watcher.next().await {
            Ok(Some(events)) => {
                let events = match self.converted(events).await {
                    Ok(events) => events,
                    Err(status) => {
                        self.watcher = None;
                        return Some(error_frame(&status));
                    }
                };
                self.meters.events.inc_by(events.len() as u64);
                self.log(&events);
                let frames: Vec<Bytes> = events.iter().map(|event| self.encoder.frame(event)).collect();
                frames.iter().for_each(|frame| self.meters.sizes.observe(frame.len() as f64));
                if let [one] = frames.as_slice() {
                    return Some(one.clone());
                }
                let mut piece = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
                frames.iter().for_each(|frame| piece.extend_from_slice(frame));
                Some(piece.freeze())
            }
            Ok(None) => {
                self.watcher = None;
                None
            }
            Err(error) => {
                self.watcher = None;
                Some(error_frame(&Status::from(registry::Error::from(error))))
            }
        }
    }

    /// Converts the objects of events to the version of this watch. Events whose frame another watch has already encoded
    /// need no conversion.
    async fn converted(&mut self, mut events: Vec<WatchEvent>) -> Result<Vec<WatchEvent>, Status> {
        if self.row.converter.is_none() {
            return Ok(events);
        }
        let changes: Vec<&mut Change> = events
            .iter_mut()
            .filter_map(|event| match event {
                WatchEvent::Changed(change) if !change.has_frame(&self.encoder.key) => Some(change),
                _ => None,
            })
            .collect();
        let objects = changes.iter().map(|change| change.object.clone()).collect();
        let shown = self.server.registry.convert_for_watch(&self.row, &self.encoder.target, objects).await?;
        changes.into_iter().zip(shown).for_each(|(change, object)| change.object = object);
        Ok(events)
    }

    /// Writes a row for each event to the request log.
    fn log(&self, events: &[WatchEvent]) {
        let Some(log) = self.server.request_log() else { return };
        let at = self.server.env.wall();
        for event in events {
            let (user, path) = (self.user.clone(), self.encoder.path.clone());
            let (event, object, revision) = match event {
                WatchEvent::Changed(Change { kind, object, .. }) => (kind.to_string(), Some(object), object.revision),
                WatchEvent::Bookmark { revision, .. } => ("BOOKMARK".to_owned(), None, *revision),
            };
            let (object, hash) = object.map(|object| (object_name(object), record::hash(object))).unzip();
            (log.0)(LogRow { at, logged: Logged::Delivery { user, path, event, object, revision, hash } });
        }
    }
}

fn object_name(object: &Object) -> String {
    let index = &object.index;
    if index.namespace.is_empty() { index.name.clone() } else { format!("{}/{}", index.namespace, index.name) }
}

/// Encodes events as frames.
struct Encoder {
    target: Target,
    transform: Transform,
    /// Key under which watches of the same form share their frames.
    key: Arc<FrameKey>,
    /// The part of an object that a table's row carries.
    include: IncludeObject,
    /// Whether the next table defines its columns: only the first does.
    column_definitions: ColumnDefinitions,
    env: Env,
    path: String,
}

impl Encoder {
    fn of(call: &Call<'_>, target: &Target, transform: Transform) -> Result<Self, Status> {
        let include = match transform {
            Transform::Table(_) => IncludeObject::parse(call.info.query.text("includeObject"))?,
            _ => IncludeObject::default(),
        };
        let key = FrameKey {
            version: target.served().api_version(),
            media_type: "application/json".into(),
            transform: format!("{transform:?}"),
        };
        Ok(Self {
            target: target.clone(),
            transform,
            key: Arc::new(key),
            include,
            column_definitions: ColumnDefinitions::Included,
            env: call.server.env.clone(),
            path: call.info.path.clone(),
        })
    }

    fn frame(&mut self, event: &WatchEvent) -> Bytes {
        match (event, self.transform) {
            (WatchEvent::Bookmark { revision, initial_events_end }, _) => self.bookmark(*revision, *initial_events_end),
            // Tables show ages, so their frames cannot be shared.
            (WatchEvent::Changed(change), Transform::Table(version)) => self.table_frame(change, version),
            (WatchEvent::Changed(change), transform) => {
                let target = &self.target;
                change.frame(&self.key, |kind, object| match transform {
                    Transform::Metadata(version) | Transform::MetadataList(version) => {
                        let mut out = Vec::with_capacity(512);
                        shown::write_metadata(&mut out, target, object, version);
                        frame(kind.as_str(), &[out.into()])
                    }
                    _ => frame(kind.as_str(), &shown::whole(target, object)),
                })
            }
        }
    }

    fn table_frame(&mut self, change: &Change, version: MetaVersion) -> Bytes {
        let table = Table::new(&self.target, version, self.include, self.env.wall().as_second());
        let column_definitions = std::mem::replace(&mut self.column_definitions, ColumnDefinitions::Omitted);
        frame(change.kind.as_str(), &[table.single(&change.object, column_definitions).into()])
    }

    /// Encodes a bookmark: an object of the kind with nothing but a resource version.
    fn bookmark(&self, revision: u64, initial_events_end: bool) -> Bytes {
        let served = self.target.served();
        let meta = bookmark_meta(revision, initial_events_end);
        let object = |kind: &str, api_version: &str| json!({"kind": kind, "apiVersion": api_version, "metadata": meta});
        let object = match self.transform {
            Transform::Whole => object(&served.kind, &served.api_version()).to_string(),
            Transform::Metadata(version) | Transform::MetadataList(version) => {
                InOrder(&object("PartialObjectMetadata", version.api_version()), &TABLE).to_json()
            }
            Transform::Table(version) => InOrder(&Table::bookmark(version, &meta), &TABLE).to_json(),
        };
        frame(BOOKMARK, &[object.into()])
    }
}

fn error_frame(status: &Status) -> Bytes {
    frame(ERROR, &[answer::status_line(status)])
}
