//! Google's ADK: `gcp.vertex.agent.*` on spans `call_llm`, `execute_tool`, `agent_run`.

use crate::convert::draft::{Draft, Kind};
use crate::domain::{Json, Value};

pub(super) fn read(draft: &mut Draft) {
    draft.dialect("google_adk");
    if draft.session.is_none() {
        draft.session = draft.text(&["gcp.vertex.agent.session_id"]).map(str::to_owned);
    }
    // Newer versions keep the keys and leave them empty.
    let filled = |key: &'static str| {
        draft
            .value(&[key])
            .filter(|(_, value)| !matches!(value, Value::String(text) if text == "{}"))
            .map(|_| key)
    };
    let request = filled("gcp.vertex.agent.llm_request");
    let response = filled("gcp.vertex.agent.llm_response");
    let args = draft.value(&["gcp.vertex.agent.tool_call_args"]).is_some();
    let is_tool = args || draft.value(&["gcp.vertex.agent.tool_response"]).is_some() && request.is_none();
    if is_tool {
        draft.kind(Some(Kind::Tool));
        draft.tool = draft.text(&["gen_ai.tool.name"]).map(str::to_owned);
        draft.arguments_from(&["gcp.vertex.agent.tool_call_args"]);
        let told = draft.text(&["gcp.vertex.agent.tool_response"]);
        if told.is_some_and(|text| text != "<not serializable>") {
            draft.result_from(&["gcp.vertex.agent.tool_response"]);
        }
        if let Some(Json::Object(map)) = &draft.arguments
            && map.is_empty()
            && draft.text(&["gcp.vertex.agent.tool_call_args"]) == Some("N/A")
        {
            draft.arguments = None;
        }
    } else if request.is_some() || response.is_some() {
        draft.kind(Some(Kind::Model));
        draft.input_from(&["gcp.vertex.agent.llm_request"]);
        draft.output_from(&["gcp.vertex.agent.llm_response"]);
    }
}
