//! Shows that validation reads only fields that the kinds define: the rules of every kind read objects that are generated
//! from its type. `At::field` panics at a field that the type does not define.

use super::of;
use super::pod::binding;
use crate::allocation::families;
use crate::testing::generated::{generated, validate_generated};
use component_base::env::Env;
use proto::resources::builtin;
use proto::schema::builtin::builtin_type;

const ROUNDS: u64 = 40;

#[test]
fn validation_reads_only_fields_that_the_kinds_define() {
    for row in builtin().iter().filter(|row| row.prefix.is_some()) {
        validate_generated(|resource| of(resource), row, 9, ROUNDS);
    }
}

#[test]
fn bindings_and_ip_families_read_only_fields_that_their_kinds_define() {
    let random = Env::simulated(1).random("objects");
    let [binding, service] = ["Binding", "Service"].map(|kind| builtin_type(&format!("io.k8s.api.core.v1.{kind}")));
    for _ in 0..ROUNDS {
        let _ = binding::check(&generated(binding.schema(), 9, &random));
        let (mut new, mut old) = (generated(service.schema(), 9, &random), generated(service.schema(), 9, &random));
        // The branches for addresses need a spec whose address fields are valid.
        let unset = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];
        for service in [&mut new, &mut old] {
            if random.below(2) == 0
                && let Some(spec) = service["spec"].as_object_mut()
            {
                spec.retain(|field, _| !unset.contains(&field.as_str()) && field != "type");
            }
        }
        families::init(&mut new.clone(), None, &["IPv4", "IPv6"]);
        families::init(&mut new, Some(&old), &["IPv4", "IPv6"]);
    }
}
