//! What a failed request tells about its effect.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use bloodraven_ports::StoreError;
use bloodraven_types::GroupKey;
use kube::core::Status;

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The API server answered.
    Answered(Box<Status>),
    /// There was no answer, or none that can be read.
    Unanswered(String),
}

impl Failure {
    /// The request was not answered in time.
    pub(crate) fn timed_out(after: Duration) -> Self {
        Self::Unanswered(format!("no answer within {after:?}"))
    }

    /// Whether the API server says that the object is not there. A server that does not know the resource answers 404
    /// too, without naming the object.
    pub(crate) fn is_absent(&self, name: &str) -> bool {
        match self {
            Self::Answered(status) => {
                status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
            }
            Self::Unanswered(_) => false,
        }
    }

    /// Whether an invalid write (422) was one of these fields.
    fn names_field(status: &Status, field: &str) -> bool {
        status
            .details
            .iter()
            .flat_map(|details| &details.causes)
            .any(|cause| cause.field == field)
    }

    /// What the failure means for a write of the group, conditioned on `version`.
    pub(crate) fn of_group(self, key: &GroupKey, version: &str) -> StoreError {
        let group = key.to_string();
        if self.is_absent(&key.name) {
            return StoreError::NotFound { group };
        }
        match self {
            Self::Unanswered(detail) => StoreError::Ambiguous { group, detail },
            Self::Answered(status) => {
                // A merge patch with another uid is an invalid change of an immutable field, not a conflict.
                let other_object = status.code == 422 && Self::names_field(&status, "metadata.uid");
                match status.code {
                    409 => StoreError::Conflict {
                        group,
                        version: version.to_owned(),
                    },
                    422 if other_object => StoreError::Conflict {
                        group,
                        version: version.to_owned(),
                    },
                    400..=407 | 410..=499 => StoreError::Refused {
                        group,
                        code: status.code,
                        detail: status.message.clone(),
                    },
                    // 408 and 5xx: the server gave up on a request that it may have carried out.
                    code => StoreError::Ambiguous {
                        group,
                        detail: format!("{code}: {}", status.message),
                    },
                }
            }
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::Answered(status);
        }
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        Self::Unanswered(text)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answered(status) => write!(f, "{}: {}", status.code, status.message),
            Self::Unanswered(detail) => f.write_str(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn key() -> GroupKey {
        GroupKey::new("default", "orders")
    }

    fn answered(code: u16) -> Failure {
        Failure::Answered(Status::failure("why", "Reason").with_code(code).boxed())
    }

    /// An answer of 4xx says that the write did not happen; 408, 5xx and no answer leave it open. spec: PF-DUR-02
    #[rstest]
    #[case(400, "Refused")]
    #[case(401, "Refused")]
    #[case(403, "Refused")]
    #[case(408, "Ambiguous")]
    #[case(409, "Conflict")]
    #[case(413, "Refused")]
    #[case(422, "Refused")]
    #[case(429, "Refused")]
    #[case(500, "Ambiguous")]
    #[case(503, "Ambiguous")]
    #[case(504, "Ambiguous")]
    fn answers_are_told_apart(#[case] code: u16, #[case] wanted: &str) {
        let error = answered(code).of_group(&key(), "7");
        assert!(format!("{error:?}").starts_with(wanted), "{code}: {error:?}");
    }

    /// A request without an answer may have been carried out. spec: PF-DUR-02
    #[test]
    fn silence_is_ambiguous() {
        let error = Failure::timed_out(Duration::from_secs(5)).of_group(&key(), "7");
        assert!(matches!(error, StoreError::Ambiguous { .. }), "{error:?}");
    }

    /// Only a 404 that names the object says that the object is gone; a resource that is not served does not.
    #[test]
    fn an_unserved_resource_is_no_deleted_group() {
        let details = serde_json::from_value(json!({ "name": "orders" })).unwrap();
        let absent = Status::failure("gone", "NotFound").with_code(404).with_details(details);
        let error = Failure::Answered(absent.boxed()).of_group(&key(), "7");
        assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
        let error = answered(404).of_group(&key(), "7");
        assert!(matches!(error, StoreError::Refused { code: 404, .. }), "{error:?}");
    }

    /// A patch of a group that was made again under its name is a conflict, not an invalid write. spec: PF-CLM-08
    #[test]
    fn another_uid_is_a_conflict() {
        let details = serde_json::from_value(json!({ "causes": [{ "field": "metadata.uid" }] })).unwrap();
        let status = Status::failure("immutable", "Invalid")
            .with_code(422)
            .with_details(details);
        let error = Failure::Answered(status.boxed()).of_group(&key(), "7");
        assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    }
}
