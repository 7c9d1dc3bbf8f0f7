//! A stack without the binaries: the servers, the group, kubectl and its plugin.

use std::process::Output;
use std::time::Duration;

use bloodraven_stack::{Stack, StackOptions};

async fn plugin(stack: &Stack, arguments: &[&str]) -> Result<Output, Box<dyn std::error::Error>> {
    let mut command = stack.kubectl_command()?;
    Ok(command.arg("bloodraven").args(arguments).output().await?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The group is made from the lab's addresses, kubectl sets its annotation, and the plugin shows it and refuses what
/// makes no sense, by the exit code that it promises. spec: PF-CLI-01, PF-CLI-02, PF-CLI-03
#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_made_and_asked() {
    let options = StackOptions {
        programs: Vec::new(),
        ..StackOptions::for_test("stack")
    };
    let stack = Stack::up(options).await.unwrap();
    let group = stack.record().await.unwrap();
    assert_eq!(group.spec.sites.len(), 3);
    assert_eq!(
        group.spec.sites[0].port,
        stack.lab().site("iad").unwrap().address().port()
    );

    let shown = plugin(&stack, &["status", "orders"]).await.unwrap();
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    assert!(
        text(&shown.stdout).contains("Group:          default/orders"),
        "{}",
        text(&shown.stdout)
    );
    let listed = plugin(&stack, &["status", "-A", "-o", "yaml"]).await.unwrap();
    assert!(
        text(&listed.stdout).contains("kind: MysqlFailoverGroup"),
        "{}",
        text(&listed.stdout)
    );
    assert_eq!(
        plugin(&stack, &["promote", "orders", "lhr"])
            .await
            .unwrap()
            .status
            .code(),
        Some(64)
    );
    assert_eq!(
        plugin(&stack, &["ack-planned-failover-hold", "orders"])
            .await
            .unwrap()
            .status
            .code(),
        Some(1)
    );

    let asked = plugin(
        &stack,
        &[
            "promote",
            "orders",
            "pdx",
            "--max-lag-wait",
            "30s",
            "--wait",
            "--timeout",
            "2s",
        ],
    )
    .await
    .unwrap();
    assert_eq!(asked.status.code(), Some(6), "{}", text(&asked.stderr));
    assert!(
        text(&asked.stdout).contains("phase: (requested)"),
        "{}",
        text(&asked.stdout)
    );
    let key = bloodraven_types::annotation::PLANNED_FAILOVER;
    let pending = |group: &bloodraven_types::Group| group.annotation(key) == Some("pdx:maxLagWait=30s");
    stack
        .wait_until("the request", Duration::from_secs(5), pending)
        .await
        .unwrap();
    let again = plugin(&stack, &["promote", "orders", "iad"]).await.unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("another request is pending"),
        "{}",
        text(&again.stderr)
    );
    stack
        .kubectl(["annotate", "mysqlfailovergroup", "orders", &format!("{key}-")])
        .await
        .unwrap();
    stack.annotate("pdx").await.unwrap();
    stack.down().await.unwrap();
}

/// A wait for something that does not come about ends at its limit and says what was seen last.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_vain_says_what_was_seen() {
    let options = StackOptions {
        programs: Vec::new(),
        ..StackOptions::for_test("wait")
    };
    let stack = Stack::up(options).await.unwrap();
    let error = stack
        .wait_until("an active site", Duration::from_millis(300), |group| {
            group.status.active_site.is_some()
        })
        .await;
    let said = error.unwrap_err().to_string();
    assert!(
        said.contains("an active site did not come about") && said.contains("active_site: None"),
        "{said}"
    );
    stack.down().await.unwrap();
}
