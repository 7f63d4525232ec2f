//! Pods and nodes as tables of a script, with the names of the API's fields. Amounts of resources are numbers: cores, bytes,
//! and counts.
//!
//! The table of a node is made once for each of its states, and that of a pod once for each of its versions. A script cannot
//! change them.

use component_helpers::scheduling::requests::Resources;
use mlua::prelude::*;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most pods whose tables are kept between calls: some MiB at most, beside the 16 MiB of garbage that a machine lets lie.
const MAX_PODS: usize = 1024;

/// The tables that a state has now.
#[derive(Debug)]
pub struct Values {
    /// True if nodes have the field `pods`. Those of 100,000 pods are made only for a script that names it.
    with_pods: bool,
    nodes: BTreeMap<String, NodeValue>,
    /// The pod of the last call.
    pod: Option<(Arc<Pod>, LuaTable)>,
    /// Pods of the last calls, by uid. A search in the queue compares the same few pods again and again.
    pods: BTreeMap<String, (Arc<Pod>, LuaTable)>,
    /// Memory of the tables of nodes that were not made before. Those that replace others take as much as becomes garbage.
    pub live_bytes: usize,
}

/// The table of a node in one state, and what the table of its next state may share.
#[derive(Debug)]
struct NodeValue {
    generation: u64,
    table: LuaTable,
    node: Option<Arc<Node>>,
    /// The pods in the order of the field `pods`.
    pods: Vec<Arc<Pod>>,
}

impl Values {
    pub fn new(with_pods: bool) -> Self {
        Self { with_pods, nodes: BTreeMap::new(), pod: None, pods: BTreeMap::new(), live_bytes: 0 }
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.with_pods);
    }

    /// Drops the tables of nodes that have gone.
    pub fn retain(&mut self, snapshot: &Snapshot) {
        if self.nodes.len() > snapshot.nodes().len() {
            self.nodes.retain(|name, _| snapshot.get(name).is_some());
        }
    }

    pub fn pod(&mut self, lua: &Lua, info: &PodInfo) -> LuaResult<LuaTable> {
        if let Some((pod, table)) = &self.pod
            && Arc::ptr_eq(pod, &info.pod)
        {
            return Ok(table.clone());
        }
        let known = self.pods.get(info.uid()).filter(|(pod, _)| Arc::ptr_eq(pod, &info.pod));
        let made = match known {
            Some(known) => known.clone(),
            None => {
                let made = (info.pod.clone(), pod_table(lua, info)?);
                if self.pods.len() >= MAX_PODS {
                    self.pods.clear();
                }
                self.pods.insert(info.uid().to_owned(), made.clone());
                made
            }
        };
        let table = made.1.clone();
        self.pod = Some(made);
        Ok(table)
    }

    pub fn node(&mut self, lua: &Lua, info: &NodeInfo) -> LuaResult<LuaTable> {
        let old = self.nodes.get(info.name());
        if let Some(old) = old.filter(|old| old.generation == info.generation) {
            return Ok(old.table.clone());
        }
        let (before, is_new) = (lua.used_memory(), old.is_none());
        let same_object = |old: &&NodeValue| match (&old.node, &info.node) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        let table = lua.create_table_with_capacity(0, OF_OBJECT.len() + 2)?;
        match old.filter(same_object) {
            Some(old) => {
                OF_OBJECT.iter().try_for_each(|name| table.raw_set(*name, old.table.raw_get::<LuaValue>(*name)?))?
            }
            None => set_of_object(lua, &table, info)?,
        }
        let requested = amounts(lua, &info.requested)?;
        requested.raw_set("pods", info.pods.len())?;
        table.raw_set("requested", read_only(&requested))?;
        let mut pods = Vec::new();
        if self.with_pods {
            table.raw_set("pods", node_pods(lua, info, old)?)?;
            pods = info.pods.iter().map(|info| info.pod.clone()).collect();
        }
        table.set_readonly(true);
        let value = NodeValue { generation: info.generation, table: table.clone(), node: info.node.clone(), pods };
        self.nodes.insert(info.name().to_owned(), value);
        if is_new {
            self.live_bytes += lua.used_memory().saturating_sub(before);
        }
        Ok(table)
    }
}

/// Returns the field `pods`. Tables of pods that were there before are shared. Both lists are sorted by uid.
fn node_pods(lua: &Lua, info: &NodeInfo, old: Option<&NodeValue>) -> LuaResult<LuaTable> {
    let pods = lua.create_table_with_capacity(info.pods.len(), 0)?;
    let before: Option<LuaTable> = old.map(|old| old.table.raw_get("pods")).transpose()?;
    let old = old.map(|old| old.pods.as_slice()).unwrap_or_default();
    let mut at = 0;
    for pod in &info.pods {
        while old.get(at).is_some_and(|old| uid(old) < pod.uid()) {
            at += 1;
        }
        let shared = old.get(at).filter(|old| Arc::ptr_eq(old, &pod.pod));
        match before.as_ref().filter(|_| shared.is_some()) {
            Some(before) => pods.raw_push(before.raw_get::<LuaTable>(at + 1)?)?,
            None => pods.raw_push(pod_table(lua, pod)?)?,
        }
    }
    pods.set_readonly(true);
    Ok(pods)
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Fields that depend on the Node object alone.
const OF_OBJECT: [&str; 9] = [
    "name",
    "labels",
    "annotations",
    "creationTimestamp",
    "unschedulable",
    "taints",
    "conditions",
    "capacity",
    "allocatable",
];

fn set_of_object(lua: &Lua, table: &LuaTable, info: &NodeInfo) -> LuaResult<()> {
    let unknown = Node::default();
    let node = info.node.as_deref().unwrap_or(&unknown);
    let (meta, status) = (&node.metadata, node.status.as_ref());
    let capacity = Resources::of(status.and_then(|status| status.capacity.as_ref()));
    let values = [
        info.name().into_lua(lua)?,
        texts(lua, meta.labels.as_ref())?,
        texts(lua, meta.annotations.as_ref())?,
        as_in_api(lua, &meta.creation_timestamp)?,
        info.is_unschedulable().into_lua(lua)?,
        as_in_api(lua, info.taints())?,
        as_in_api(lua, status.and_then(|s| s.conditions.as_deref()).unwrap_or_default())?,
        read_only(&amounts(lua, &capacity)?),
        read_only(&amounts(lua, &info.allocatable)?),
    ];
    OF_OBJECT.iter().zip(values).try_for_each(|(name, value)| table.raw_set(*name, value))
}

fn pod_table(lua: &Lua, info: &PodInfo) -> LuaResult<LuaTable> {
    let (meta, spec) = (&info.pod.metadata, info.spec());
    let table = lua.create_table_with_capacity(0, 18)?;
    table.raw_set("name", meta.name.as_deref())?;
    table.raw_set("namespace", info.namespace())?;
    table.raw_set("uid", info.uid())?;
    table.raw_set("labels", texts(lua, meta.labels.as_ref())?)?;
    table.raw_set("annotations", texts(lua, meta.annotations.as_ref())?)?;
    table.raw_set("creationTimestamp", as_in_api(lua, &meta.creation_timestamp)?)?;
    table.raw_set("ownerReferences", as_in_api(lua, meta.owner_references.as_deref().unwrap_or_default())?)?;
    table.raw_set("priority", info.priority)?;
    table.raw_set("priorityClassName", spec.priority_class_name.as_deref())?;
    table.raw_set("schedulerName", spec.scheduler_name.as_deref())?;
    table.raw_set("serviceAccountName", spec.service_account_name.as_deref())?;
    table.raw_set("nodeName", spec.node_name.as_deref())?;
    table.raw_set("nodeSelector", texts(lua, spec.node_selector.as_ref())?)?;
    table.raw_set("tolerations", as_in_api(lua, spec.tolerations.as_deref().unwrap_or_default())?)?;
    table.raw_set("requests", read_only(&amounts(lua, &info.requests)?))?;
    let images = lua.create_table()?;
    for container in &spec.containers {
        let of_container = lua.create_table()?;
        of_container.raw_set("name", container.name.as_str())?;
        of_container.raw_set("image", container.image.as_deref())?;
        of_container.set_readonly(true);
        images.raw_push(of_container)?;
    }
    table.raw_set("containers", read_only(&images))?;
    table.set_readonly(true);
    Ok(table)
}

/// Returns a table with text under each name, which is empty without any.
fn texts(lua: &Lua, texts: Option<&BTreeMap<String, String>>) -> LuaResult<LuaValue> {
    let table = lua.create_table_with_capacity(0, texts.map_or(0, BTreeMap::len))?;
    for (name, text) in texts.into_iter().flatten() {
        table.raw_set(name.as_str(), text.as_str())?;
    }
    Ok(read_only(&table))
}

/// Returns amounts by resource: CPU in cores, the others as they are.
fn amounts(lua: &Lua, resources: &Resources) -> LuaResult<LuaTable> {
    let table = lua.create_table_with_capacity(0, resources.scalar.len() + 4)?;
    table.raw_set("cpu", resources.milli_cpu as f64 / 1000.0)?;
    table.raw_set("memory", resources.memory as f64)?;
    table.raw_set("ephemeral-storage", resources.ephemeral_storage as f64)?;
    table.raw_set("pods", resources.pods as f64)?;
    for (name, amount) in &resources.scalar {
        table.raw_set(name.as_str(), *amount as f64)?;
    }
    Ok(table)
}

fn read_only(table: &LuaTable) -> LuaValue {
    table.set_readonly(true);
    LuaValue::Table(table.clone())
}

/// Returns a part of an object with the names that it has in JSON.
fn as_in_api<T: Serialize + ?Sized>(lua: &Lua, part: &T) -> LuaResult<LuaValue> {
    from_json(lua, &serde_json::to_value(part).unwrap_or_default())
}

fn from_json(lua: &Lua, value: &Value) -> LuaResult<LuaValue> {
    match value {
        Value::Null => Ok(LuaNil),
        Value::Bool(value) => value.into_lua(lua),
        Value::Number(number) => number.as_f64().into_lua(lua),
        Value::String(text) => text.as_str().into_lua(lua),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(from_json(lua, item)?)?;
            }
            Ok(read_only(&table))
        }
        Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, value) in fields {
                table.raw_set(name.as_str(), from_json(lua, value)?)?;
            }
            Ok(read_only(&table))
        }
    }
}
