//! Synthetic histories: a clock in milliseconds, servers by name, sessions by number.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy knows only the test functions themselves"
)]

use std::time::Duration;

use bloodraven_ledger::{
    Acknowledged, Activity, History, Moment, Report, ServerUuid, SessionNumber, SurvivingRow, SurvivingTable,
    Unconfirmed, UnconfirmedKind, WriteKey, WriterNumber, judge,
};

/// When every synthetic run starts, so that tables show a time of day.
pub(crate) const START: i64 = 1_767_261_600_000;

/// A history under construction and the table that survives it.
pub(crate) struct Story {
    pub(crate) history: History,
    pub(crate) rows: Vec<SurvivingRow>,
    next_key: u64,
}

/// The moment `ms` milliseconds into the run.
pub(crate) fn at(ms: i64) -> Moment {
    Moment::from_nanoseconds((START + ms) * 1_000_000)
}

impl Story {
    /// A run of a 10 ms tick that lasts `ms` milliseconds.
    pub(crate) fn lasting(ms: i64) -> Self {
        let mut history = History::default();
        history.activities.push(Activity {
            run_id: "run".to_owned(),
            started: at(0),
            stopped: Some(at(ms)),
            tick: Duration::from_millis(10),
            last_seen: at(ms),
        });
        for (server, name) in [("iad", "mysql-iad:3306"), ("pdx", "mysql-pdx:3306")] {
            history.servers.insert(ServerUuid::from(server), name.to_owned());
        }
        Self {
            history,
            rows: Vec::new(),
            next_key: 0,
        }
    }

    /// An acknowledged write of `session` on `server`, in flight from `sent` to `acked`; not in the surviving history.
    pub(crate) fn promise(&mut self, server: &str, session: u64, id: u64, (sent, acked): (i64, i64)) -> WriteKey {
        let key = self.key();
        self.history.acknowledged.push(Acknowledged {
            writer: WriterNumber(u32::try_from(session % 4).unwrap()),
            session: SessionNumber(session),
            server: ServerUuid::from(server),
            key: key.clone(),
            id,
            sent: at(sent),
            acked: at(acked),
        });
        key
    }

    /// An acknowledged write that survives.
    pub(crate) fn keep(&mut self, server: &str, session: u64, id: u64, times: (i64, i64)) {
        let key = self.promise(server, session, id, times);
        self.survive(id, key.as_str());
    }

    /// Acknowledged writes of one session that survive: one each 10 ms from `from` until `until`, 1 ms in flight.
    pub(crate) fn serve(&mut self, server: &str, session: u64, (from, until): (i64, i64)) {
        for sent in (from..until).step_by(10) {
            let id = u64::try_from(self.history.acknowledged.len()).unwrap() + 1;
            self.keep(server, session, id, (sent, sent + 1));
        }
    }

    /// A write that was not acknowledged.
    pub(crate) fn unconfirmed(
        &mut self,
        kind: UnconfirmedKind,
        server: &str,
        code: &str,
        (sent, ended): (i64, i64),
    ) -> WriteKey {
        let key = self.key();
        self.history.unconfirmed.push(Unconfirmed {
            kind,
            writer: WriterNumber(0),
            server: ServerUuid::from(server),
            key: key.clone(),
            sent: at(sent),
            ended: at(ended),
            code: code.to_owned(),
            message: format!("error {code}"),
        });
        key
    }

    /// A row of the surviving history.
    pub(crate) fn survive(&mut self, id: u64, key: &str) {
        self.rows.push(SurvivingRow {
            id,
            key: key.to_owned(),
        });
    }

    /// The verdict, by one survivor.
    pub(crate) fn judge(self) -> Report {
        judge(
            self.history,
            &[SurvivingTable {
                name: "pdx".to_owned(),
                rows: self.rows,
            }],
        )
        .unwrap()
    }

    fn key(&mut self) -> WriteKey {
        self.next_key += 1;
        WriteKey::from(format!("run-0-{}", self.next_key))
    }
}
