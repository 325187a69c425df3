"""Names of log, event and span fields (OB-01). One spelling everywhere."""

CORRELATION_ID = "correlation_id"
OPERATION_ID = "operation_id"
OPERATION_TYPE = "operation_type"
ORG_ID = "org_id"
PROJECT_ID = "project_id"
RESOURCE_NAME = "resource_name"
ERROR_CODE = "error_code"
TASK_ID = "task_id"
STEP_ID = "step_id"
STEP_KIND = "step_kind"
NODE_ID = "node_id"
ATTEMPT_NUMBER = "attempt_number"
TRACEPARENT = "traceparent"

REQUIRED = (CORRELATION_ID, OPERATION_ID, OPERATION_TYPE, ORG_ID, PROJECT_ID, RESOURCE_NAME, ERROR_CODE)
