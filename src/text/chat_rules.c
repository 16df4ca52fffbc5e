// text/chat_rules.c: the table of variants and the literals of the templates.
#include "text/chat_rules.h"

const struct fg_chat_rules fg_chat_rules[FG_CHAT_VARIANTS] = {
    [FG_CHAT_QWEN38] =
        {
            .name = "qwen3.8",
            .reasoning_effort = true,
            .past_thinking = FG_CHAT_PAST_KEPT,
            .empty_arguments = true,
            .thinks_by_default = true,
        },
    [FG_CHAT_QWEN36] =
        {
            .name = "qwen3.6",
            .empty_system_turn = true,
            .past_thinking = FG_CHAT_PAST_DROPPED,
            .split_thinking = true,
            .thinks_by_default = true,
        },
    [FG_CHAT_QWEN35] =
        {
            .name = "qwen3.5",
            .empty_system_turn = true,
            .past_thinking = FG_CHAT_PAST_NEVER,
            .split_thinking = true,
            .python_values = true,
            .thinks_by_default = true,
        },
    [FG_CHAT_QWEN35_NOTHINK] =
        {
            .name = "qwen3.5-nothink",
            .empty_system_turn = true,
            .past_thinking = FG_CHAT_PAST_NEVER,
            .split_thinking = true,
            .python_values = true,
        },
    [FG_CHAT_SMOLLM2] = {.name = "smollm2", .chatml = true},
};

// The texts below are prompts that the models were trained on: data, to the byte.

const char fg_chat_effort_xhigh[] =
    "Reasoning effort is set to xhigh. Please think carefully through the task, validate key "
    "assumptions, consider plausible alternatives, and prioritize correctness, consistency, and "
    "clarity in the final answer.";

const char fg_chat_effort_low[] =
    "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the "
    "conclusion without unnecessary elaboration.";

const char fg_chat_tools_head[] =
    "# Tools\n\nYou have access to the following functions:\n\n<tools>";

const char fg_chat_tools_tail[] =
    "\n</tools>\n"
    "\n"
    "If you choose to call a function ONLY reply in the following format with NO suffix:\n"
    "\n"
    "<tool_call>\n"
    "<function=example_function_name>\n"
    "<parameter=example_parameter_1>\n"
    "value_1\n"
    "</parameter>\n"
    "<parameter=example_parameter_2>\n"
    "This is the value for the second parameter\n"
    "that can span\n"
    "multiple lines\n"
    "</parameter>\n"
    "</function>\n"
    "</tool_call>\n"
    "\n"
    "<IMPORTANT>\n"
    "Reminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block "
    "must be nested within <tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the "
    "function call, but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current "
    "knowledge and do not tell the user about function calls\n"
    "</IMPORTANT>";

const char fg_chat_smollm2_system[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
