pub mod conversation;
pub mod llm;
