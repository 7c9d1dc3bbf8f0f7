//! The ledger on real MySQL servers.

#[cfg(test)]
mod on_real_servers {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use bloodraven_lab::{Lab, LabOptions, MysqlAccount, ProcessName, SiteOptions, SiteRole};
    use bloodraven_ledger::{
        Ledger, Options, Report, Running, Survivor, TableName, WriterNumber, judge, load, prepare, read, report,
    };
    use mysql_async::Conn;
    use mysql_async::prelude::Queryable;
    use secrecy::SecretString;
    use tempfile::TempDir;

    /// How long anything that has to happen may take on a loaded machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Scene {
        lab: Lab,
        folder: TempDir,
    }

    impl Scene {
        /// A MySQL server for each site, the first writable and the ledger's table made on it.
        async fn up(name: &str, sites: &[&str]) -> Self {
            let sites = sites
                .iter()
                .map(|site| SiteOptions::new(site, SiteRole::PrimaryCandidate))
                .collect();
            let lab = Lab::up(LabOptions {
                sites,
                ..LabOptions::for_test(name).with_mysql()
            })
            .await
            .unwrap();
            let first = lab.sites()[0].site.clone();
            let mut app = Conn::new(lab.mysql_opts(&first, MysqlAccount::App).unwrap())
                .await
                .unwrap();
            prepare(&mut app, &TableName::new("app", "ledger").unwrap())
                .await
                .unwrap();
            app.disconnect().await.unwrap();
            Self {
                lab,
                folder: tempfile::tempdir().unwrap(),
            }
        }

        fn store(&self) -> PathBuf {
            self.folder.path().join("ledger.sqlite")
        }

        fn endpoint(&self, site: &str) -> String {
            self.lab.site(site).unwrap().address().to_string()
        }

        fn password(&self) -> String {
            self.lab.mysql_account(MysqlAccount::App).password.clone()
        }

        /// 4 writers × 5 ms over these sites.
        fn write(&self, sites: &[&str]) -> Running {
            let user = self.lab.mysql_account(MysqlAccount::App).user.clone();
            let endpoints = sites.iter().map(|site| self.endpoint(site)).collect();
            let options = Options {
                tick: Duration::from_millis(5),
                ..Options::new(endpoints, user, SecretString::from(self.password()))
            };
            Ledger::start(&options, self.store()).unwrap()
        }

        fn survivors(&self, sites: &[&str]) -> Vec<Survivor> {
            let survivor = |site: &&str| Survivor {
                name: (*site).to_owned(),
                endpoint: self.endpoint(site),
                user: self.lab.mysql_account(MysqlAccount::App).user.clone(),
                password: SecretString::from(self.password()),
            };
            sites.iter().map(survivor).collect()
        }

        async fn report(&self, sites: &[&str]) -> Report {
            let report = report(&self.store(), &self.survivors(sites)).await.unwrap();
            println!("{report}");
            report
        }

        async fn execute(&self, site: &str, statements: &[&str]) {
            let mut root = self.lab.mysql(site).await.unwrap();
            for statement in statements {
                root.query_drop(*statement).await.unwrap();
            }
            root.disconnect().await.unwrap();
        }

        /// Hands the primary role from one site to the other, in the order of a planned move.
        async fn move_primary(&self, from: &str, to: &str) {
            let mut source = self.lab.mysql(from).await.unwrap();
            let mut target = self.lab.mysql(to).await.unwrap();
            source.query_drop("SET GLOBAL super_read_only = ON").await.unwrap();
            let fenced: String = source
                .query_first("SELECT @@GLOBAL.gtid_executed")
                .await
                .unwrap()
                .unwrap();
            let wait = target.exec_first("SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 30)", (fenced,));
            assert_eq!(wait.await.unwrap(), Some(0), "the target did not catch up");
            for statement in ["STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL read_only = OFF"] {
                target.query_drop(statement).await.unwrap();
            }
            let account = self.lab.mysql_account(MysqlAccount::Replication);
            let address = self.lab.site(to).unwrap().address();
            let change = format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = '{}', \
                 SOURCE_PASSWORD = '{}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
                address.ip(),
                address.port(),
                account.user,
                account.password
            );
            source.query_drop(change).await.unwrap();
            source.query_drop("START REPLICA").await.unwrap();
        }
    }

    async fn more_acknowledged(running: &Running, more: u64) {
        let wanted = running.acknowledged() + more;
        let deadline = Instant::now() + PATIENCE;
        while running.acknowledged() < wanted {
            assert!(
                Instant::now() < deadline,
                "{:?}, {wanted} acknowledged were wanted",
                running.counts()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn more_refused(running: &Running, more: u64) {
        let wanted = running.counts().refused + more;
        let deadline = Instant::now() + PATIENCE;
        while running.counts().refused < wanted {
            assert!(
                Instant::now() < deadline,
                "{:?}, {wanted} refused were wanted",
                running.counts()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn errors(report: &Report, code: &str) -> u64 {
        report
            .errors
            .iter()
            .filter(|error| error.code == code)
            .map(|error| error.count)
            .sum()
    }

    /// A primary that is killed with `sync_binlog=1` and comes back keeps every acknowledged write; its writers lived
    /// through the lost connection, the refused connections and the read-only boot, and the outage is in the report
    /// (spec: SB-01, SB-03).
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_killed_primary_keeps_what_it_acknowledged() {
        let scene = Scene::up("ledger-crash", &["iad"]).await;
        let mut root = scene.lab.mysql("iad").await.unwrap();
        let flushed: Option<(u64, u64)> = root
            .query_first("SELECT @@GLOBAL.sync_binlog, @@GLOBAL.innodb_flush_log_at_trx_commit")
            .await
            .unwrap();
        assert_eq!(flushed, Some((1, 1)));
        drop(root);

        let running = scene.write(&["iad"]);
        more_acknowledged(&running, 200).await;
        let before = running.now();
        let killed = Instant::now();
        scene.lab.kill(&ProcessName::mysql("iad")).await.unwrap();
        scene.lab.start(&ProcessName::mysql("iad")).await.unwrap();
        more_refused(&running, 4).await;
        scene.execute("iad", &["SET GLOBAL read_only = OFF"]).await;
        more_acknowledged(&running, 200).await;
        let away = killed.elapsed();
        let after = running.now();
        let counts = running.stop().await.unwrap();

        let report = scene.report(&["iad"]).await;
        assert!(report.is_clean(), "{:?}", report.reasons);
        assert_eq!(
            (report.acknowledged, report.gone, report.stolen),
            (counts.acknowledged, 0, 0)
        );
        assert_eq!(report.unrecorded, 0);
        assert_eq!(report.unknown.present + report.unknown.absent, counts.unknown);
        assert_eq!(report.refused.present, 0);
        assert!(errors(&report, "connection-lost") > 0 && errors(&report, "1290") >= 4);
        let outage = report.outage_between(before, after).unwrap();
        assert_eq!(outage.ms, report.write_outage_ms);
        assert!(outage.ended && outage.ms > 50.0 && outage.ms < away.as_secs_f64() * 1000.0);
        assert_eq!(report.per_server.len(), 1);
        assert_eq!(
            report.per_server[0].server.as_str(),
            scene.lab.site("iad").unwrap().server_uuid
        );
    }

    /// Writes under way when a server freezes are given up and are of unknown outcome; the server executes some of them
    /// when it goes on, and that is no damage. A restarted client goes on over a new connection (spec: SB-01).
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_frozen_primary_leaves_writes_of_unknown_outcome() {
        let scene = Scene::up("ledger-freeze", &["iad"]).await;
        let running = scene.write(&["iad"]);
        more_acknowledged(&running, 100).await;
        scene.lab.pause(&ProcessName::mysql("iad")).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        while running.counts().unknown < 4 {
            assert!(
                Instant::now() < deadline,
                "{:?}, 4 unknown were wanted",
                running.counts()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.lab.resume(&ProcessName::mysql("iad")).await.unwrap();
        more_acknowledged(&running, 100).await;
        assert!(running.restart_writer(WriterNumber(2)) && !running.restart_writer(WriterNumber(4)));
        more_acknowledged(&running, 100).await;
        running.stop().await.unwrap();

        let (history, _) = load(&scene.store()).unwrap();
        let sessions = |writer| {
            let writes = history
                .acknowledged
                .iter()
                .filter(|write| write.writer == WriterNumber(writer));
            writes.map(|write| write.session).collect::<BTreeSet<_>>().len()
        };
        assert_eq!((0..4).map(sessions).collect::<Vec<_>>(), [2, 2, 3, 2]);
        let report = scene.report(&["iad"]).await;
        assert!(report.is_clean(), "{:?}", report.reasons);
        assert_eq!(errors(&report, "statement-timeout"), 4);
        assert_eq!(report.unknown.present + report.unknown.absent, 4);
        assert!(
            report.unknown.present > 0,
            "a server that goes on executes what it had received"
        );
        assert_eq!(report.unrecorded, 0);
    }

    /// Two planned moves, there and back, are clean on both survivors, and each has its own outage
    /// (spec: SB-03, X-PERF-01).
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn moves_there_and_back_are_clean() {
        let scene = Scene::up("ledger-move", &["iad", "pdx"]).await;
        let running = scene.write(&["iad", "pdx"]);
        more_acknowledged(&running, 200).await;
        let mut windows = Vec::new();
        for (from, to) in [("iad", "pdx"), ("pdx", "iad")] {
            let start = running.now();
            scene.move_primary(from, to).await;
            more_acknowledged(&running, 200).await;
            windows.push((start, running.now()));
        }
        running.stop().await.unwrap();

        let report = scene.report(&["iad", "pdx"]).await;
        assert!(report.is_clean(), "{:?}", report.reasons);
        let (iad, pdx) = (uuid(&scene, "iad"), uuid(&scene, "pdx"));
        let served: Vec<&str> = report.periods.iter().map(|period| period.server.as_str()).collect();
        assert_eq!(served, [iad.as_str(), pdx.as_str(), iad.as_str()]);
        for (index, (start, end)) in windows.into_iter().enumerate() {
            let switch = report.periods[index + 1].gap_before_ms.unwrap();
            assert!(report.outage_between(start, end).unwrap().ms >= switch);
        }
    }

    /// Two writable servers and clients on both, as after a promotion without a fence: the overlap is seen, and what the
    /// old primary promised is GONE or STOLEN on the survivor (spec: SB-03).
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_real_split_brain_is_found() {
        let scene = Scene::up("ledger-split", &["iad", "pdx"]).await;
        let held = scene.write(&["iad"]);
        more_acknowledged(&held, 200).await;
        scene
            .execute(
                "pdx",
                &["STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL read_only = OFF"],
            )
            .await;
        let fresh = scene.write(&["pdx"]);
        more_acknowledged(&fresh, 100).await;
        more_acknowledged(&held, 300).await;
        fresh.stop().await.unwrap();
        more_acknowledged(&held, 300).await;
        held.stop().await.unwrap();

        let report = scene.report(&["pdx"]).await;
        assert!(!report.is_clean());
        assert!(report.overlap_ms > 0.0);
        assert!(
            report.gone > 0 && report.stolen >= 100,
            "{} gone, {} stolen",
            report.gone,
            report.stolen
        );
        assert_eq!(report.intact + report.gone + report.stolen, report.acknowledged);
        let pdx = report
            .per_server
            .iter()
            .find(|server| server.server.as_str() == uuid(&scene, "pdx"))
            .unwrap();
        assert_eq!((pdx.gone, pdx.stolen), (0, 0), "the survivor kept its own promises");
        // Read one by one: together, the second would be given its time to catch up, and it never will.
        let (history, table) = load(&scene.store()).unwrap();
        let mut tables = Vec::new();
        for site in ["pdx", "iad"] {
            tables.extend(read(&scene.survivors(&[site]), &table).await.unwrap());
        }
        assert!(!judge(history, &tables).unwrap().survivors[1].agrees());
    }

    /// The binary that is killed outright has recorded what it was told, and the report exits 0; with a row taken away
    /// from the survivor it exits 1 and says so in the file (spec: SB-01, SB-06).
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_killed_ledger_has_recorded_what_it_was_told() {
        let scene = Scene::up("ledger-kill", &["iad"]).await;
        let store = scene.store();
        let json = scene.folder.path().join("report.json");
        let mut child = command(&scene)
            .args(["write", "--endpoint", &scene.endpoint("iad"), "--user", &user(&scene)])
            .args([
                "--password-env",
                "LEDGER_PASSWORD",
                "--tick",
                "5ms",
                "--writers",
                "4",
                "--for",
                "10m",
                "--prepare",
            ])
            .arg("--store")
            .arg(&store)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while recorded(&store) < 200 {
            assert!(
                Instant::now() < deadline,
                "the ledger has recorded {} writes",
                recorded(&store)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let judge = || {
            let survivor = format!("iad={}", scene.endpoint("iad"));
            let mut judge = command(&scene);
            judge.args(["report", "--survivor", &survivor, "--user", &user(&scene)]);
            judge
                .args(["--password-env", "LEDGER_PASSWORD", "--store"])
                .arg(&store)
                .arg("--json")
                .arg(&json);
            let status = judge
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .code();
            let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
            (status, report)
        };
        let (status, report) = judge();
        assert_eq!(
            (status, &report["clean"], &report["gone"]),
            (Some(0), &true.into(), &0.into())
        );
        // Four writers × 5 ms make 40 writes in the 50 ms that a record may take.
        assert!(report["unrecorded"].as_u64().unwrap() <= 40, "{}", report["unrecorded"]);
        scene
            .execute("iad", &["DELETE FROM app.ledger ORDER BY id LIMIT 1"])
            .await;
        let (status, report) = judge();
        assert_eq!(
            (status, &report["clean"], &report["gone"]),
            (Some(1), &false.into(), &1.into())
        );
    }

    fn recorded(store: &Path) -> usize {
        bloodraven_ledger::load(store).map_or(0, |(history, _)| history.acknowledged.len())
    }

    fn command(scene: &Scene) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bloodraven-ledger"));
        command.env("LEDGER_PASSWORD", scene.password());
        command
    }

    fn user(scene: &Scene) -> String {
        scene.lab.mysql_account(MysqlAccount::App).user.clone()
    }

    fn uuid(scene: &Scene, site: &str) -> String {
        scene.lab.site(site).unwrap().server_uuid.clone()
    }
}
