//! The first commands of a student. Each must print an expected fragment.

use crate::cluster;
use e2e::store::Store;
use std::path::Path;

/// Command lines of kubectl, each with a fragment of what it prints on either output. A line with `!` before it must
/// fail. In a line, `DIR` is the test's directory, and a plus is a space inside one argument.
const SESSION: &[(&str, &str)] = &[
    // The cluster, the user and the user's permissions.
    ("version", "Server Version: v1.36."),
    ("cluster-info", "Kubernetes control plane is running at https://127.0.0.1:"),
    ("auth whoami", "kubernetes-admin"),
    ("auth can-i --list", "*.*"),
    ("!auth can-i delete nodes --as=system:serviceaccount:default:default", "no"),
    ("get --raw /readyz", "ok"),
    ("get --raw /livez?verbose", "livez check passed"),
    ("get componentstatuses", "Healthy"),
    ("api-versions", "apps/v1"),
    ("explain pods.spec.containers --recursive", "terminationMessagePath"),
    // One object of each kind that `create` knows.
    ("run box --image=busybox", "pod/box created"),
    ("run once --image=busybox --restart=Never -- sleep 1", "pod/once created"),
    ("create job j --image=busybox -- sleep 1", "job.batch/j created"),
    ("create job says --image=busybox -- echo hi", "job.batch/says created"),
    ("create cronjob cj --image=busybox --schedule=0/5+*+*+*+* -- date", "cronjob.batch/cj created"),
    ("create secret generic s --from-literal=a=b", "secret/s created"),
    ("create configmap c --from-literal=a=b", "configmap/c created"),
    ("create role r --verb=get --resource=pods", "role.rbac.authorization.k8s.io/r created"),
    ("create rolebinding rb --role=r --user=jane", "rolebinding.rbac.authorization.k8s.io/rb created"),
    ("create clusterrole cr --verb=list --resource=nodes", "clusterrole.rbac.authorization.k8s.io/cr created"),
    (
        "create clusterrolebinding crb --clusterrole=cr --user=jane",
        "clusterrolebinding.rbac.authorization.k8s.io/crb created",
    ),
    ("create serviceaccount sa", "serviceaccount/sa created"),
    ("create token sa", "eyJ"),
    ("create quota q --hard=pods=100", "resourcequota/q created"),
    ("create poddisruptionbudget p --selector=run=box --min-available=1", "poddisruptionbudget.policy/p created"),
    ("create priorityclass pc --value=10", "priorityclass.scheduling.k8s.io/pc created"),
    ("create ingress i --rule=a.example/*=web:80", "ingress.networking.k8s.io/i created"),
    ("create service nodeport np --tcp=80:80", "service/np created"),
    ("create service loadbalancer lb --tcp=80", "service/lb created"),
    ("create service externalname en --external-name=x.example", "service/en created"),
    ("auth can-i get pods --as=jane", "yes"),
    ("auth can-i list nodes --as=jane", "yes"),
    ("get all", "service/en"),
    ("get services lb", "<pending>"),
    // Waits and Events.
    ("wait --for=condition=Ready pod/box --timeout=60s", "pod/box condition met"),
    ("wait --for=jsonpath={.status.phase}=Succeeded pod/once --timeout=60s", "pod/once condition met"),
    ("wait --for=condition=Complete job/j --timeout=60s", "job.batch/j condition met"),
    ("wait --for=condition=Complete job/says --timeout=60s", "job.batch/says condition met"),
    ("get pod once", "Completed"),
    ("get job j", "1/1"),
    ("events --for=pod/box", "Successfully assigned default/box to node-"),
    // Logs, exec and proxies of containers and nodes.
    ("logs box", "box: started from image busybox"),
    ("logs -l run=box --tail=1 --timestamps", "Z box: started"),
    ("logs job/says", "hi"),
    ("!logs box -c none", "container none is not valid for pod box"),
    ("!logs box --previous", "previous terminated container \"box\" in pod \"box\" not found"),
    ("exec box -- echo hello", "hello"),
    ("exec box -- sh -c echo+$HOSTNAME+&&+id", "uid=0(root)"),
    ("exec box -- cat /var/run/secrets/kubernetes.io/serviceaccount/namespace", "default"),
    ("!exec box -- nginx", "executable file not found in $PATH"),
    ("!exec box -- sh -c exit+3", "command terminated with exit code 3"),
    ("get --raw /api/v1/nodes/node-0/proxy/healthz", "ok"),
    ("get --raw /api/v1/nodes/node-0/proxy/pods", "PodList"),
    ("run page --image=nginx --port=80 --expose", "pod/page created"),
    ("wait --for=condition=Ready pod/page --timeout=60s", "pod/page condition met"),
    ("get --raw /api/v1/namespaces/default/pods/page/proxy/", "<title>Welcome to nginx!</title>"),
    ("!get --raw /api/v1/namespaces/default/pods/page/proxy/none", "the server could not find the requested resource"),
    ("!get --raw /api/v1/namespaces/default/pods/page:81/proxy/", "connect: connection refused"),
    ("!get --raw /api/v1/namespaces/default/services/page:99/proxy/", "no service port 99 found for service \"page\""),
    // Changes of existing objects.
    ("label pod box a=1", "pod/box labeled"),
    ("!label pod box a=2", "'a' already has a value (1), and --overwrite is false"),
    ("label --overwrite pod box a=2", "pod/box labeled"),
    ("taint nodes node-2 dedicated=x:NoSchedule", "node/node-2 tainted"),
    ("taint nodes node-2 dedicated-", "node/node-2 untainted"),
    ("create deployment web --image=nginx", "deployment.apps/web created"),
    ("autoscale deployment web --min=2 --max=5", "horizontalpodautoscaler.autoscaling/web autoscaled"),
    ("set env deployment/web A=b", "deployment.apps/web env updated"),
    ("set resources deployment/web --limits=cpu=200m", "deployment.apps/web resource requirements updated"),
    ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
    ("!scale deployment/web --replicas=1 --current-replicas=9", "Expected replicas to be 9, was"),
    ("expose pod box --port=80 --name=boxsvc", "service/boxsvc exposed"),
    ("debug pod/box --image=busybox -- sh", "debugger-"),
    ("delete pod once --grace-period=0 --force", "pod \"once\" force deleted"),
    ("replace --force -f DIR/c.yaml", "configmap/c replaced"),
    ("diff -k DIR", "dev-k"),
    ("apply -k DIR", "configmap/dev-k created"),
    ("apply --prune -l part=of -f DIR/other.yaml", "configmap/dev-k pruned"),
    ("top nodes", "CPU(cores)"),
    // Errors about missing objects.
    ("!port-forward none 8080:80", "Error from server (NotFound): pods \"none\" not found"),
    ("!get gadgets", "the server doesn't have a resource type \"gadgets\""),
    ("!get pod none", "Error from server (NotFound): pods \"none\" not found"),
    ("!create namespace default", "Error from server (AlreadyExists): namespaces \"default\" already exists"),
    ("!scale deployment/none --replicas=2", "deployments.apps \"none\" not found"),
    ("-n none get pods", "No resources found in none namespace."),
];

#[test]
fn a_first_day() {
    let directory = tempfile::tempdir().unwrap();
    manifests(directory.path());
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    for (line, fragment) in SESSION {
        let words = line.trim_start_matches('!').replace("DIR", &directory.path().to_string_lossy());
        let words: Vec<String> = words.split(' ').map(|word| word.replace('+', " ")).collect();
        let printed = kubectl.run_args(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let all = format!("{}{}", printed.stdout, printed.stderr);
        // `diff` ends with 1 if something differs.
        let success = printed.success || words[0] == "diff";
        assert_eq!(success, !line.starts_with('!'), "kubectl {line}\n{all}");
        assert!(all.contains(fragment), "kubectl {line}: no {fragment:?} in\n{all}");
    }
    // `describe` works for every kind except two: a kubectl of 1.32 requests them in a version that is no longer
    // served.
    let kinds = kubectl.ok("api-resources --verbs=get,list -o name");
    let is_describable = |kind: &&str| !kind.starts_with("ipaddresses.") && !kind.starts_with("servicecidrs.");
    let kinds: Vec<&str> = kinds.lines().filter(is_describable).collect();
    kubectl.ok(&format!("describe {} -A", kinds.join(",")));
    cluster.stop();
}

fn manifests(directory: &Path) {
    let config_map = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{part: of}}}}\ndata: {{a: b}}\n")
    };
    std::fs::write(directory.join("c.yaml"), config_map("c")).unwrap();
    std::fs::write(directory.join("k.yaml"), config_map("k")).unwrap();
    std::fs::write(directory.join("other.yaml"), config_map("other")).unwrap();
    std::fs::write(directory.join("kustomization.yaml"), "namePrefix: dev-\nnamespace: default\nresources: [k.yaml]\n")
        .unwrap();
}
