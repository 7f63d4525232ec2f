//! `scale`: reads and writes the replicas of any scalable object as an autoscaling/v1 Scale.
//!
//! Corresponds to the ScaleREST storages of pkg/registry/apps and pkg/registry/core.

use super::body::{self, ExpectedKind, RequestBody};
use super::{Call, patch, present};
use crate::media::{Form, Transform};
use ::patch::apply::FieldManager;
use ::patch::apply::conversions::Conversions;
use ::patch::apply::managers::Managers;
use ::patch::apply::path::Path;
use ::patch::apply::scale::{to_parent, to_scale};
use ::patch::{json_patch, merge, strategic};
use axum::body::Body;
use http::Response;
use proto::meta::status::FieldError;
use proto::resources::{ScalePaths, Target, Verb, columns};
use proto::schema::{TypeRef, builtin_type, decode};
use proto::{Object, Status};
use registry::mutation::{Change, Changed};
use registry::scale::{scale_of, set_replicas};
use request::body::read;
use request::options::WriteOptions;
use serde_json::{Value, json};
use strategy::object_meta;

const GROUP: &str = "autoscaling";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

fn schema() -> TypeRef {
    builtin_type(SCALE)
}

fn replicas_path(paths: &ScalePaths) -> Path {
    Path::of_fields(&paths.spec_replicas.iter().map(String::as_str).collect::<Vec<_>>())
}

pub async fn answer(call: &Call<'_>, target: &Target, verb: Verb, body: Body) -> Result<Response<Body>, Status> {
    if verb == Verb::Get {
        let form = call.form()?;
        let version = call.info.query.text("resourceVersion");
        let parent = call.server.registry.read_object(target, call.namespace(target), &call.info.name, version).await?;
        return present(call, target, &form, &parent);
    }
    let (body, options, form) = match verb {
        Verb::Patch => read_patch(call, target, body).await?,
        _ => read_scale(call, target, body).await?,
    };
    let manager = call.manager(&options.field_manager);
    let mut mutation = call.mutation(target, &manager, options.dry_run, &options.given);
    let uid = match &body {
        ScaleBody::Scale(scale) => Some(object_meta::text(scale, "uid").to_owned()).filter(|uid| !uid.is_empty()),
        ScaleBody::Patch(..) => None,
    };
    let change = ScaleChange { call, target, body, manager: &manager, force: options.force == Some(true), uid };
    let written = call.update(&mut mutation, &change).await?;
    present(call, target, &form, &written.object)
}

async fn read_patch(call: &Call<'_>, target: &Target, body: Body) -> Result<(ScaleBody, WriteOptions, Form), Status> {
    let patch_type = patch::type_of(call, target)?;
    let form = call.form()?;
    let bytes = read(body).await?;
    let options = WriteOptions::read(&call.info.query, "PatchOptions", patch_type == patch::PatchType::Apply)?;
    Ok((ScaleBody::Patch(patch_type, patch::parse(patch_type, &bytes)?.0), options, form))
}

async fn read_scale(call: &Call<'_>, target: &Target, body: Body) -> Result<(ScaleBody, WriteOptions, Form), Status> {
    let form = call.form()?;
    let kind = ExpectedKind::builtin(GROUP, "v1", "Scale", SCALE);
    let request = RequestBody::read(call, &kind.schema, "UpdateOptions", body).await?;
    let scale = request.decode(call, &kind)?;
    body::check_name(call, target, &scale)?;
    Ok((ScaleBody::Scale(scale), request.options, form))
}

/// Builds the response of a stored object's Scale, which may be a table or metadata.
fn present(call: &Call<'_>, target: &Target, form: &Form, parent: &Object) -> Result<Response<Body>, Status> {
    let served = target.served();
    let scale = scale_of(served, &served.from_storage(parent.to_value()))?;
    let columns = matches!(form.transform, Transform::Table(_)).then(columns::scale);
    present::scale(call, target, form, scale, parent.revision, columns)
}

fn managers_of(object: &Value) -> Managers {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.and_then(|entries| Managers::read(entries).ok()).unwrap_or_default()
}

/// The body of a write: a Scale that replaces the current one, or a patch of it.
enum ScaleBody {
    Scale(Value),
    Patch(patch::PatchType, Value),
}

/// The change of a stored object that a write of its Scale makes.
struct ScaleChange<'a> {
    call: &'a Call<'a>,
    target: &'a Target,
    body: ScaleBody,
    manager: &'a str,
    force: bool,
    uid: Option<String>,
}

impl Change for ScaleChange<'_> {
    fn change(&self, current: Option<&Value>, _conversions: &Conversions) -> registry::Result<Changed> {
        let served = self.target.served();
        let name = self.call.info.name.as_str();
        let parent = current.ok_or_else(|| Status::not_found(&served.group, &served.resource, name))?;
        let replicas_path = replicas_path(&served.scale);
        let mut live = scale_of(served, parent)?;
        to_scale(&managers_of(parent), &replicas_path).write_into(&mut live);
        let schema = schema();
        let fields = FieldManager::of_scale(schema.schema(), self.call.server.env.wall());
        let mut scale = match &self.body {
            ScaleBody::Scale(scale) => scale.clone(),
            ScaleBody::Patch(patch_type, patch) => decode_scale(match patch_type {
                patch::PatchType::Json => json_patch::apply(&live, patch)?,
                patch::PatchType::Merge => merge::apply(&live, patch)?,
                patch::PatchType::Strategic => strategic::apply(schema.schema(), &live, patch)?,
                patch::PatchType::Apply => fields.apply(Some(&live), patch, self.manager, self.force)?,
            })?,
        };
        body::check_name(self.call, self.target, &scale)?;
        if !matches!(self.body, ScaleBody::Patch(patch::PatchType::Apply, _)) {
            fields.update(Some(&live), &mut scale, self.manager);
        }
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        // The strategy of custom resources validates the replicas itself.
        if replicas < 0 && served.schema.is_builtin() {
            let why = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &json!(replicas), why);
            return Err(Status::invalid(GROUP, "Scale", name, &[error]).into());
        }
        let mut object = parent.clone();
        set_replicas(served, &mut object, replicas);
        match scale["metadata"].get("resourceVersion") {
            Some(version) => object["metadata"]["resourceVersion"] = version.clone(),
            None if served.schema.is_builtin() => drop(object_meta::meta_mut(&mut object).remove("resourceVersion")),
            // A custom resource needs its version for a write, so the current one stays.
            None => {}
        }
        let managers = to_parent(&managers_of(parent), &managers_of(&scale), &replicas_path, &served.api_version());
        managers.write_into(&mut object);
        Ok(Changed { object, managed: true })
    }

    fn required_uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}

/// Decodes the result of a patch as a Scale.
fn decode_scale(scale: Value) -> Result<Value, Status> {
    let shown = scale.to_string();
    let decoded = decode(&schema(), scale)
        .map_err(|error| Status::invalid("", "", "", &[FieldError::invalid("patch", &json!(shown), error)]))?;
    let mut scale = decoded.value;
    scale["kind"] = json!("Scale");
    scale["apiVersion"] = json!("autoscaling/v1");
    Ok(scale)
}
