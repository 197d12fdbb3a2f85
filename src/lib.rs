pub mod agent;
pub mod conversation;
pub mod llm;
