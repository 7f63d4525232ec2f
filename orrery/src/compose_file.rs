//! Tests of the compose files: containers are confined, command lines are valid, and nodes share no secret.

use crate::cli::{Cli, Command};
use clap::Parser;
use proto::serializer::{Document, Format};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

fn services(file: &str) -> BTreeMap<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = fs::read(path).unwrap();
    let document = Document::parse(Format::Yaml, &text).unwrap();
    assert_eq!(document.duplicates, [""; 0], "{file}");
    let services = document.value["services"].as_object().unwrap().clone();
    services.into_iter().collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Returns a text as compose reads it while no variable is set: `${NAME:-default}` is its default.
fn with_defaults(text: &str) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (variable, after) = rest.split_once('}').expect("a variable ends");
    let default = variable.split_once(":-").map_or("", |(_, default)| default);
    format!("{before}{default}{}", with_defaults(after))
}

/// Parses the command line of a service.
fn command(service: &Value) -> Command {
    let arguments: Vec<String> = texts(&service["command"]).iter().map(|text| with_defaults(text)).collect();
    let line: Vec<&str> = ["orrery"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Cli::try_parse_from(&line).unwrap_or_else(|error| panic!("{line:?}: {error}")).command
}

fn check_confined(file: &str, name: &str, service: &Value) {
    let id = |variable: &str| format!("${{{variable}:-1000}}");
    let user = format!("{}:{}", id("ORRERY_UID"), id("ORRERY_GID"));
    for (field, wanted) in [
        ("user", json!(user)),
        ("read_only", json!(true)),
        ("cap_drop", json!(["ALL"])),
        ("security_opt", json!(["no-new-privileges:true"])),
    ] {
        assert_eq!(service[field], wanted, "{file}: {name}: {field}");
    }
    assert!(service["cap_add"].is_null() && service["privileged"].is_null(), "{file}: {name}");
}

#[test]
fn every_container_is_confined() {
    let services_of_one = services("docker-compose.yml");
    for (name, service) in &services_of_one {
        check_confined("docker-compose.yml", name, service);
    }
    // Services that this file only extends are confined in the other file.
    for (name, service) in services("compose/etcd-three.yml") {
        if !services_of_one.contains_key(&name) {
            check_confined("compose/etcd-three.yml", &name, &service);
        }
    }
}

/// A node's files are in no other container, so that stolen files expose one node only.
#[test]
fn no_two_services_share_a_volume_of_keys() {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, service) in services("docker-compose.yml").into_iter().filter(|(name, _)| name != "certs") {
        for volume in texts(&service["volumes"]).iter().filter(|volume| volume.starts_with("pki-")) {
            assert!(volume.ends_with(":ro"), "{name}: {volume}");
            owners.entry(volume.split(':').next().unwrap().to_owned()).or_default().insert(name.clone());
        }
    }
    for (volume, owners) in owners {
        let own = volume.trim_start_matches("pki-").to_owned();
        assert_eq!(owners, BTreeSet::from([own]), "{volume}");
    }
}

/// A new volume takes the mode of the image's folder. Without a folder it belongs to root, and nobody may write there.
#[test]
fn the_image_has_a_folder_for_each_volume_of_keys() {
    let dockerfile = include_str!("../../Dockerfile");
    let made: BTreeSet<&str> = dockerfile
        .lines()
        .filter_map(|line| line.split_once(" mkdir "))
        .flat_map(|(_, names)| names.split(' '))
        .collect();
    let certs = services("docker-compose.yml").remove("certs").unwrap();
    for volume in texts(&certs["volumes"]).iter().filter_map(|volume| volume.split_once(":/pki/")) {
        assert!(made.contains(volume.1), "the Dockerfile makes no folder pki/{}", volume.1);
    }
}

#[test]
fn each_node_service_is_one_node_under_its_own_name() {
    let services = services("docker-compose.yml");
    let Command::Certs(issued) = command(&services["certs"]) else { panic!("certs issues certificates") };
    let mut nodes = Vec::new();
    for (name, service) in &services {
        if name == "etcd" {
            continue;
        }
        let Command::KubeletSim(config) = command(service) else { continue };
        assert!(!config.settings.impersonate_nodes, "{name}");
        config.settings.check().unwrap();
        assert_eq!(config.settings.own_node().as_ref(), Some(name));
        let volumes = texts(&service["volumes"]);
        // Its own files, and those of the storage that all nodes reach.
        assert_eq!(volumes, [format!("pki-{name}:/pki/node:ro"), "claims:/claims".to_owned()]);
        assert_eq!(config.settings.volume_dir, Some("/claims".into()));
        let kept = format!("pki-{name}:/pki/nodes/{name}");
        assert!(texts(&services["certs"]["volumes"]).contains(&kept), "{kept}");
        nodes.push(name.clone());
    }
    assert_eq!((nodes.len(), nodes), (3, issued.nodes));
}

/// The comments of the compose file show commands for machines, which run in the service with the administrator's keys.
#[test]
fn the_commands_of_the_comments_are_valid() {
    let admin = services("docker-compose.yml").remove("admin").unwrap();
    let text = include_str!("../../docker-compose.yml");
    let shown: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("#     docker compose run --rm admin ")).collect();
    assert_eq!(shown.len(), 3);
    for line in shown {
        let kubeconfig = match command(&json!({"command": line.split(' ').collect::<Vec<_>>()})) {
            Command::Node(options) => options.command.access().kubeconfig.clone(),
            Command::Cloud(options) => options.command.access().kubeconfig.clone(),
            _ => panic!("{line}"),
        };
        let kubeconfig = kubeconfig.unwrap();
        let folder = format!("pki-admin:{}:ro", kubeconfig.parent().unwrap().display());
        assert!(texts(&admin["volumes"]).contains(&folder), "{folder}");
    }
}
