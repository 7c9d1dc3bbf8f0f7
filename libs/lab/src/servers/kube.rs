//! etcd and the Kubernetes API server: certificates, command lines, the administrator's client, kubeconfig files.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::error::LabError;
use crate::files;
use crate::install::{kube_binaries, run};
use crate::ports::PortPlan;
use crate::process::{ProcessName, ProcessSpec};
use crate::state::KubeNode;

/// Name of the kubeconfig whose identity may do everything.
pub(crate) const ADMIN: &str = "admin";
/// OpenSSL's view of the lab's own authority and of the server's certificate.
const OPENSSL_CONFIGURATION: &str = "\
[req]
distinguished_name = name
prompt = no
[name]
CN = bloodraven-lab
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
subjectAltName = IP:127.0.0.1, DNS:localhost, DNS:kubernetes.default.svc
";

/// Plans etcd and the API server, with certificates, tokens and the administrator's kubeconfig.
pub(crate) fn plan(lab_dir: &Path, ports: &mut PortPlan) -> Result<(KubeNode, [ProcessSpec; 2]), LabError> {
    let [etcd_program, apiserver_program] = kube_binaries()?;
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let etcd = SocketAddr::new(host, ports.take("etcd", host)?);
    let etcd_peer = SocketAddr::new(host, ports.take("etcd-peer", host)?);
    let address = SocketAddr::new(host, ports.take("kube-apiserver", host)?);
    let etcd_dir = lab_dir.join("etcd");
    let dir = lab_dir.join("kube-apiserver");
    let node = KubeNode {
        server: format!("https://{address}"),
        address,
        etcd,
        kubeconfig_dir: dir.join("kubeconfig"),
        ca_file: dir.join("ca.crt"),
        admin_token: files::random_hex(16)?,
    };
    for folder in [&etcd_dir, &dir, &node.kubeconfig_dir] {
        files::create_private_dir(folder).map_err(|source| LabError::io("create", folder, source))?;
    }
    make_certificates(&dir)?;
    let tokens = format!("{},admin,admin,\"system:masters\"\n", node.admin_token);
    files::write_private(&dir.join("tokens.csv"), tokens.as_bytes())?;
    write_kubeconfig(&node, ADMIN, &node.admin_token, "default")?;
    let etcd_spec = ProcessSpec {
        name: ProcessName::Etcd,
        program: etcd_program,
        args: etcd_arguments(&etcd_dir, etcd, etcd_peer),
        log: etcd_dir.join("etcd.log"),
        ports: [("client".to_owned(), etcd)].into(),
        stale_files: Vec::new(),
        dir: etcd_dir,
    };
    let apiserver_spec = ProcessSpec {
        name: ProcessName::KubeApiserver,
        program: apiserver_program,
        args: apiserver_arguments(&dir, etcd, address),
        log: dir.join("kube-apiserver.log"),
        ports: [("https".to_owned(), address)].into(),
        stale_files: Vec::new(),
        dir,
    };
    Ok((node, [etcd_spec, apiserver_spec]))
}

/// The kubeconfig file of an identity.
pub(crate) fn kubeconfig_path(node: &KubeNode, identity: &str) -> PathBuf {
    node.kubeconfig_dir.join(format!("{identity}.json"))
}

/// Writes a kubeconfig file for a bearer token. (JSON is YAML, so every client reads it.)
pub(crate) fn write_kubeconfig(node: &KubeNode, identity: &str, token: &str, namespace: &str) -> Result<(), LabError> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": node.server, "certificate-authority": node.ca_file}}],
        "users": [{"name": identity, "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": identity, "namespace": namespace}}],
        "current-context": "lab",
    });
    files::write_private(&kubeconfig_path(node, identity), format!("{content:#}\n").as_bytes())
}

/// A client with the identity of a kubeconfig file.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client, LabError> {
    let doing = || format!("reading {}", kubeconfig.display());
    let file = Kubeconfig::read_from(kubeconfig).map_err(|error| LabError::kube(doing(), error))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| LabError::kube(doing(), error))?;
    Client::try_from(config).map_err(|error| LabError::kube("making a client", error))
}

/// Whether the server answers that it is ready, the `default` namespace and the built-in roles included.
pub(crate) async fn is_ready(client: &Client) -> bool {
    let Ok(request) = kube::core::Request::new("").get("readyz", &kube::api::GetParams::default()) else {
        return false;
    };
    client.request_text(request).await.is_ok_and(|text| text.trim() == "ok")
}

/// The lab's own certificate authority, the server's certificate, and the key that signs ServiceAccount tokens.
fn make_certificates(dir: &Path) -> Result<(), LabError> {
    let config = dir.join("openssl.cnf");
    files::write_private(&config, OPENSSL_CONFIGURATION.as_bytes())?;
    let certificate = |name: &str, section: &str, more: &[&str]| -> Result<(), LabError> {
        let mut command = Command::new("openssl");
        command.current_dir(dir).args([
            "req",
            "-x509",
            "-config",
            "openssl.cnf",
            "-extensions",
            section,
            "-days",
            "365",
        ]);
        command.args([
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
        ]);
        command
            .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")])
            .args(more);
        run("kube-apiserver", &mut command).map(drop)
    };
    certificate("ca", "authority", &[])?;
    certificate("apiserver", "server", &["-CA", "ca.crt", "-CAkey", "ca.key"])?;
    let mut key = Command::new("openssl");
    key.current_dir(dir).args([
        "ecparam",
        "-name",
        "prime256v1",
        "-genkey",
        "-noout",
        "-out",
        "service-accounts.key",
    ]);
    run("kube-apiserver", &mut key).map(drop)
}

fn etcd_arguments(dir: &Path, client: SocketAddr, peer: SocketAddr) -> Vec<String> {
    vec![
        format!("--data-dir={}", dir.join("data").display()),
        format!("--listen-client-urls=http://{client}"),
        format!("--advertise-client-urls=http://{client}"),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster=default=http://{peer}"),
        // The lab's API objects need not survive a power cut.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn apiserver_arguments(dir: &Path, etcd: SocketAddr, address: SocketAddr) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://{etcd}"),
        format!("--bind-address={}", address.ip()),
        format!("--advertise-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={}", file("service-accounts.key")),
        format!("--service-account-key-file={}", file("service-accounts.key")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        // No controller makes the account that this plugin would demand of every pod.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ]
}
