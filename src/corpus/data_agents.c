// corpus/data_agents.c: training prompts for agents: tools, what the agent is told, what is asked,
// and first steps that were made already.
#include "corpus/prompts_data.h"

#define TOOLSET_LISTS(set)                                                                         \
    static const struct fg_phrase_list set##_lists[] = {                                           \
        {"system", set##_system, sizeof set##_system / sizeof set##_system[0]},                    \
        {"task", set##_task, sizeof set##_task / sizeof set##_task[0]},                            \
        {"call", set##_call, sizeof set##_call / sizeof set##_call[0]},                            \
        {"what", set##_what, sizeof set##_what / sizeof set##_what[0]},                            \
        {0}}

// ---- a coding agent in a repository

static const char *const coding_tools[] = {
    "read_file|Read a text file from the repository.|path:string!:Path relative to the repository "
    "root|first_line:integer:First line to return, from 1|last_line:integer:Last line to return",
    "write_file|Replace or create a file.|path:string!:Path relative to the repository "
    "root|content:string!:The whole new content",
    "apply_patch|Apply a unified diff to the working tree.|patch:string!:The "
    "diff|dry_run:boolean:Only check whether it applies",
    "run_command|Run a command in a sandboxed shell and return its output.|command:string!:The "
    "command line|timeout_s:integer:Seconds until it is stopped",
    "search_code|Search file contents with a regular expression.|pattern:string!:The "
    "expression|glob:string:Restrict to files that match|max_results:integer:At most this many "
    "hits",
    "list_directory|List the entries of a directory.|path:string!:The "
    "directory|recursive:boolean:Descend into subdirectories",
    "git_log|Show commits that touch a path.|path:string:The path; all when absent|n:integer:How "
    "many commits",
    NULL,
};
static const char *const coding_system[] = {
    "You are a coding agent working in a git repository. Read before you write, run the tests "
    "after every change, and keep changes small. When you are done, summarize what you changed and "
    "why.",
    "You help maintain a mature code base. Never guess the content of a file: open it. Prefer the "
    "existing style to your own. If the request is ambiguous, state your assumption and go on.",
    "You are an autonomous engineer. You have tools for files, search and commands. Plan in one or "
    "two sentences, act, look at the result, and adjust. Do not modify files under vendor/ or "
    "generated/.",
    "You are a careful reviewer with write access. Explain each edit in a sentence. A task is "
    "finished only when the tests pass.",
};
static const char *const coding_what[] = {
    "the parser rejects a trailing comma",
    "the export of @{adjective} @{noun}s takes minutes",
    "a test fails about once in @{n:20:90} runs",
    "the command `@{verb} --@{noun}` ignores its argument",
    "the type checker complains about `@{verb}_@{noun}`",
    "the @{noun} module imports half of the project",
    "time zones are dropped when a @{noun} is saved",
    "there are two functions that @{verb} a @{noun}",
    "the log says \"@{adjective} @{noun}\" without any context",
    "a @{noun} with a space in its name cannot be opened",
};
static const char *const coding_task[] = {
    "In src/@{noun}/ @{what}. Find out why and fix it. Add a regression test.",
    "@{A:what}. I think it started with the refactoring of @{noun#2}. Please investigate before "
    "changing anything.",
    "Add an option --@{adjective}-@{noun#2} to the command that can @{verb} @{noun#3}s, with help "
    "text, a test and a line in the changelog.",
    "Rename the function that can @{verb} a @{noun#2} so that it says what it does, everywhere, "
    "docs included.",
    "Split src/@{noun#2}.py, which is far too long, along its natural seams. No behaviour may "
    "change.",
    "Write down how a @{noun#2} travels through the code from request to storage, with file names "
    "and line numbers. Change nothing.",
    "Port the script tools/@{verb}_@{noun#2}.sh to Python, keep its flags, and delete the old one "
    "when the tests agree.",
    "CI is red on main: @{what}. Get it green with the smallest change, then tell me what the "
    "right change would be.",
    "Replace the home-grown retry loop around @{noun#2} by the helper that exists already, if "
    "there is one.",
    "The function `@{verb}_@{adjective}_@{noun#2}` has no tests. Write them, covering at least "
    "@{n:3:6} edge cases that you find by reading it.",
};
static const char *const coding_call[] = {
    "search_code|{\"pattern\": \"@{verb}_@{noun}\", \"max_results\": "
    "20}|src/@{noun}/@{verb}.py:@{n:10:400}: def @{verb}_@{noun}(self, *, "
    "@{adjective}=False):\nsrc/@{noun#2}/api.py:@{n:10:400}:     return @{verb}_@{noun}(row, "
    "@{adjective}=True)\ntests/test_@{noun}.py:@{n:10:90}:     assert @{verb}_@{noun}(None) is "
    "None",
    "run_command|{\"command\": \"pytest -q tests/test_@{noun}.py\", \"timeout_s\": "
    "120}|....F..\n=== FAILURES ===\n___ test_@{verb}_@{adjective}_@{noun} ___\n    assert "
    "@{verb}(@{noun}) == @{n:1:99}\nE   assert @{n:100:999} == @{n:1:99}\n1 failed, 6 passed in "
    "@{n:1:9}.@{digits:2}s",
    "list_directory|{\"path\": \"src/@{noun}\", \"recursive\": "
    "false}|__init__.py\n@{verb}.py\n@{noun#2}_@{noun#3}.py\ncompat/\nREADME.md",
    "git_log|{\"path\": \"src/@{noun}.py\", \"n\": 3}|@{hex:7} @{A:verb} @{adjective} @{noun}s "
    "before saving\n@{hex:7} Remove the @{noun#2} fallback\n@{hex:7} Initial import",
};
TOOLSET_LISTS(coding);

// ---- a calendar and mail assistant

static const char *const office_tools[] = {
    "find_events|Search a calendar.|query:string:Words in title or notes|from:string!:Start, RFC "
    "3339|to:string!:End, RFC 3339",
    "create_event|Put an event into the calendar.|title:string!:The title|start:string!:Start, RFC "
    "3339|minutes:integer!:Length in minutes|attendees:array:Mail addresses|location:string:Where",
    "move_event|Change the start of an event.|event_id:string!:As find_events returns "
    "it|start:string!:New start, RFC 3339|notify:boolean:Tell the attendees",
    "search_mail|Search the mailbox.|query:string!:Search words|folder:inbox,sent,archive:Where to "
    "look|limit:integer:At most this many",
    "send_mail|Send a message.|to:array!:Addresses|subject:string!:The subject|body:string!:Plain "
    "text|reply_to_id:string:Message that it answers",
    "get_contact|Look a person up in the address book.|name:string!:Full or partial name",
    NULL,
};
static const char *const office_system[] = {
    "You organize calendar and mail for one person. Today is Thursday, 12 March. Working hours are "
    "9 to 17 in Europe/Zurich. Ask before you send anything to people outside the company.",
    "You are a personal assistant with access to a calendar, a mailbox and contacts. Check for "
    "conflicts before you create or move events. Be brief.",
    "You act for a department head. Never delete; move or decline instead. When several slots fit, "
    "prefer afternoons. Report what you did as a short list.",
};
static const char *const office_what[] = {
    "the review of the @{noun} budget",
    "lunch with @{name#2}",
    "the interview with a candidate",
    "the call about @{adjective} @{noun}s",
    "the dentist",
    "the workshop on @{noun#2}",
    "the quarterly planning",
    "a handover with @{name#3}",
    "the visit of @{company}",
};
static const char *const office_task[] = {
    "Find half an hour next week for @{what} with @{name}, not on Monday, and send invitations.",
    "Move @{what} to the first free slot after @{n:1:4} pm and tell everybody who is affected.",
    "What did @{name} write about @{what}? Summarize it and draft an answer, but do not send it.",
    "I am ill. Cancel what can wait tomorrow and move @{what}; write to the others in one sentence "
    "each.",
    "Do I have conflicts in the next @{n:2:3} weeks? List them with a suggestion for each.",
    "Book travel time of @{n:20:80} minutes before and after @{what}.",
    "Collect all attachments that @{name} sent since @{n:2:9} February and tell me which I have "
    "not answered.",
    "Set up a series of @{n:3:8} meetings about @{what}, every second week, with @{name} and "
    "@{name#4}; skip holidays.",
};
static const char *const office_call[] = {
    "find_events|{\"from\": \"2026-03-16T00:00:00+01:00\", \"to\": "
    "\"2026-03-20T23:59:59+01:00\"}|[{\"id\": \"ev_@{hex:6}\", \"title\": \"@{A:noun} review\", "
    "\"start\": \"2026-03-17T1@{n:0:5}:00:00+01:00\", \"minutes\": @{n:3:9}0}, {\"id\": "
    "\"ev_@{hex:6}\", \"title\": \"1:1 @{name#5}\", \"start\": "
    "\"2026-03-18T09:@{n:10:45}:00+01:00\", \"minutes\": 30}]",
    "get_contact|{\"name\": \"@{name}\"}|[{\"name\": \"@{name}\", \"mail\": "
    "\"@{noun}.@{digits:3}@mail.example\", \"phone\": \"+41 44 @{digits:3} @{digits:2} "
    "@{digits:2}\"}]",
    "search_mail|{\"query\": \"@{noun}\", \"folder\": \"inbox\", \"limit\": 5}|[{\"id\": "
    "\"m@{digits:5}\", \"from\": \"@{name}\", \"subject\": \"Re: @{adjective} @{noun}\", \"date\": "
    "\"2026-03-1@{n:0:1}\", \"snippet\": \"I looked at the numbers again and\"}]",
};
TOOLSET_LISTS(office);

// ---- a data analyst

static const char *const data_tools[] = {
    "list_tables|List tables with their columns and row counts.|schema:string:Restrict to one "
    "schema",
    "run_sql|Run a read-only query and return at most 200 rows.|sql:string!:One SELECT "
    "statement|explain:boolean:Return the plan, not rows",
    "plot|Draw a chart of the last result.|kind:line,bar,scatter,histogram:Which "
    "chart|x:string!:Column|y:string:Column|title:string:The title",
    "save_report|Store a Markdown report.|title:string!:The title|markdown:string!:The "
    "text|tags:array:Labels",
    "describe_column|Statistics of a column.|table:string!:The table|column:string!:The column",
    NULL,
};
static const char *const data_system[] = {
    "You are a data analyst with read-only access to a warehouse. Look at the schema before you "
    "write SQL. State the period and the filters of every number that you report.",
    "You answer questions of the business with SQL. Numbers without a sanity check are not "
    "answers. If data are missing, say so; do not extrapolate.",
    "You work for @{company}. Queries cost money: aggregate in the database and select only the "
    "columns that you need.",
};
static const char *const data_what[] = {
    "cancelled orders",
    "late deliveries",
    "first-time buyers",
    "refunds above @{n:50:400} euros",
    "idle subscriptions",
    "@{noun}s without a @{noun#2}",
    "night shifts",
    "returned parcels",
    "support tickets about the @{noun}",
    "free trials",
};
static const char *const data_task[] = {
    "How did the share of @{what} develop over the last @{n:4:18} months? Plot it and explain the "
    "largest jump.",
    "Which five regions have the most @{what} per customer, and is the ranking stable between "
    "years?",
    "Somebody reported that @{what} doubled in week @{n:2:51}. Is that so, or did the counting "
    "change?",
    "Compare @{what} before and after the price change of @{n:1:28} May with a fair control group.",
    "Find duplicate @{noun#3}s, estimate how many there are, and write a short report with the "
    "query.",
    "Build a cohort table for @{what} by month of sign-up. Cells are percentages, the diagonal is "
    "cut.",
    "The dashboard says @{n:1000:9000}, my query says @{n:1000:9000}. Find the difference; it "
    "concerns @{what}.",
    "What would you check first if the number of @{what} was zero since Tuesday? Check it.",
};
static const char *const data_call[] = {
    "list_tables|{}|sales.orders (id bigint, customer_id bigint, placed_at timestamptz, status "
    "text, total_cents int) @{n:2:90}.@{n:1:9}M rows\nsales.@{noun}s (id bigint, order_id bigint, "
    "@{adjective} bool, created_at timestamptz) @{n:1:9}.@{n:1:9}M rows\ncrm.customers (id bigint, "
    "country text, signed_up_at date) @{n:100:900}k rows",
    "describe_column|{\"table\": \"sales.orders\", \"column\": \"status\"}|distinct: @{n:5:8}; "
    "null: 0.@{n:1:9} %; top: shipped (@{n:50:70} %), open (@{n:10:20} %), cancelled (@{n:2:9} %), "
    "@{adjective} (@{n:1:2} %)",
    "run_sql|{\"sql\": \"SELECT date_trunc('month', placed_at) AS m, count(*) FROM sales.orders "
    "GROUP BY 1 ORDER BY 1 DESC LIMIT 3\"}|2026-02-01 | @{n:10000:90000}\n2026-01-01 | "
    "@{n:10000:90000}\n2025-12-01 | @{n:100000:190000}",
};
TOOLSET_LISTS(data);

// ---- home automation

static const char *const home_tools[] = {
    "get_state|Read the state of a device or of a room.|target:string!:Device or room",
    "set_light|Switch or dim lights.|target:string!:Light or room|brightness:integer:0 to "
    "100|colour:string:Name or hex value|fade_s:integer:Seconds of fading",
    "set_temperature|Set the target of a thermostat.|room:string!:The "
    "room|celsius:number!:Target|until:string:Time of day when the schedule takes over",
    "create_rule|Add an automation.|when:string!:Condition in words|then:string!:Action in "
    "words|name:string:A short name",
    "energy_report|Consumption by device.|from:string!:Date|to:string!:Date",
    NULL,
};
static const char *const home_system[] = {
    "You control a house through tools. Say what you are going to do when it is loud, hot or locks "
    "a door. Rooms: kitchen, study, bedroom, bath, hall, cellar.",
    "You are the voice of a flat with old wiring: never run oven, washing machine and heater at "
    "once. Answer in one or two sentences.",
};
static const char *const home_what[] = {
    "the hall light",     "the study",       "the bath heater", "the cellar pump",
    "the bedroom blinds", "the kitchen fan", "the boiler",
};
static const char *const home_task[] = {
    "Make it cosy in the living area for @{n:2:8} guests at @{n:6:9} pm, and do not let it get "
    "above @{n:20:23} degrees.",
    "Why was @{what} on last night? Turn it off now and make sure that it does not happen again.",
    "Our electricity bill is up by @{n:12:60} %. Compare the last two months by device and tell me "
    "what to change.",
    "When I leave on weekdays before @{n:7:9}, @{what} should go off, unless @{name} is at home. "
    "Set that up.",
    "Wake me at @{n:5:7}:@{n:10:50} with light that grows over @{n:10:30} minutes, only in the "
    "bedroom; then start @{what}.",
    "Check @{what} and the two rooms next to it and report anything odd.",
};
static const char *const home_call[] = {
    "get_state|{\"target\": \"study\"}|{\"temperature_c\": @{n:16:24}.@{n:0:9}, \"humidity\": "
    "@{n:30:70}, \"light\": {\"on\": true, \"brightness\": @{n:5:100}}, \"window\": \"open since "
    "0@{n:1:9}:@{n:10:59}\"}",
    "energy_report|{\"from\": \"2026-02-01\", \"to\": \"2026-02-28\"}|boiler @{n:60:160} kWh, "
    "cellar pump @{n:10:90} kWh, kitchen @{n:40:90} kWh, unknown @{n:5:80} kWh",
};
TOOLSET_LISTS(home);

// ---- customer support with orders

static const char *const support_tools[] = {
    "lookup_order|Find an order.|order_no:string:Number as printed on the "
    "invoice|email:string:Address of the customer",
    "track_parcel|Where a parcel is.|tracking_no:string!:The carrier's number",
    "issue_refund|Give money back.|order_no:string!:The "
    "order|cents:integer!:Amount|reason:damaged,late,wrong_item,goodwill:Why",
    "search_policy|Search the help pages and internal rules.|query:string!:What to look for",
    "escalate|Hand over to a person.|team:billing,logistics,safety:Which team|summary:string!:What "
    "happened so far|urgent:boolean:Today",
    NULL,
};
static const char *const support_system[] = {
    "You answer customers of @{company}. Refunds up to 50.00 are yours to give; above that, "
    "escalate. Look things up, never invent an order. Be warm and short.",
    "You are the first line of support. Verify who is writing before you reveal an address. One "
    "question at a time.",
    "You handle complaints in the customer's language. Policy beats promises, but say sorry first. "
    "Log every refund with its reason.",
};
static const char *const support_what[] = {
    "a lamp with a broken shade",   "the wrong size of boots",
    "a chair without screws",       "an empty box",
    "a coffee grinder that smokes", "two copies of the same book",
    "a voucher that was refused",   "a parcel that is \"delivered\" but not here",
};
static const char *const support_task[] = {
    "Hello, order @{n:100000:999999}: I received @{what}. What now? I need it before @{n:2:28} "
    "April.",
    "I want my money back for @{what}. Your colleague promised me @{n:30:220}.00 on the phone. "
    "Order @{n:100000:999999}, @{name}.",
    "Tracking @{hex:10} has not moved for @{n:4:15} days. It is a present. I am not amused.",
    "Guten Tag, ich habe statt der Bestellung @{n:100000:999999} etwas anderes bekommen, nämlich: "
    "@{what}. Und jetzt?",
    "Can I return @{what} after @{n:31:90} days if I never opened it? If not, what can you do for "
    "me?",
    "My neighbour @{name} got @{what}, which is mine, and I got hers. Order @{n:100000:999999}. "
    "Please sort it out.",
};
static const char *const support_call[] = {
    "lookup_order|{\"order_no\": \"@{n:100000:999999}\"}|{\"order_no\": \"@{digits:6}\", "
    "\"status\": \"delivered\", \"items\": [{\"sku\": \"@{hex:6}\", \"cents\": @{n:1900:24900}}], "
    "\"tracking_no\": \"@{hex:10}\", \"paid_with\": \"card\"}",
    "search_policy|{\"query\": \"return after 30 days\"}|Unopened goods: 30 days, then store "
    "credit up to 60 days. Exceptions: gifts bought between 15 November and 24 December. Goodwill "
    "up to 20 % at the agent's discretion.",
};
TOOLSET_LISTS(support);

// ---- research on the web

static const char *const research_tools[] = {
    "web_search|Search the web.|query:string!:The query|site:string:Restrict to a "
    "site|year:integer:Not older than",
    "open_page|Fetch a page as text.|url:string!:The address|find:string:Return only passages with "
    "these words",
    "calculate|Evaluate an expression exactly.|expression:string!:Arithmetic with units",
    "note|Keep a finding for later.|text:string!:One sentence|source:string!:Where it is "
    "from|confidence:low,medium,high:How sure",
    NULL,
};
static const char *const research_system[] = {
    "You research questions and answer with sources. Two independent sources per claim, or say "
    "that there is only one. Quote numbers with their year and unit.",
    "You are a fact checker. Start from the original publication, not from what was written about "
    "it. Say \"unknown\" when it is unknown.",
    "You prepare briefings of one page. Use the tools sparingly: at most six calls. End with open "
    "questions.",
};
static const char *const research_what[] = {
    "heat pumps in old buildings",
    "the age of the oldest tree in Europe",
    "microplastics in honey",
    "night trains and their subsidies",
    "how fast glaciers in the Alps shrink",
    "the invention of the zip",
    "desalination costs",
    "the reading speed of adults",
    "bees in cities",
    "four-day working weeks",
    "the price of copper",
    "noise limits for wind turbines",
};
static const char *const research_task[] = {
    "What is known about @{what}? I need three solid numbers with sources for @{company}.",
    "Somebody claims in a meeting that @{what} is \"a solved problem\". Check it and write five "
    "sentences.",
    "Compare what is reported on @{what} in two countries of your choice; mind different "
    "definitions.",
    "Find the original study behind the popular figure about @{what} and say what it measured.",
    "How would the numbers on @{what} change if we count per person? Calculate, show the "
    "expression.",
    "Collect arguments for and against a pilot project on @{what}, each with the best source you "
    "find, and mark opinions.",
};
static const char *const research_call[] = {
    "web_search|{\"query\": \"@{what} statistics\", \"year\": 20@{n:18:25}}|1. Federal office "
    "report 20@{n:18:25}: @{what} (stats.example/@{hex:5})\n2. Review article, 20@{n:18:25} "
    "(journal.example/@{hex:6})\n3. Blog: what nobody tells you (blog.example/@{hex:4})",
    "open_page|{\"url\": \"https://stats.example/@{hex:5}\", \"find\": \"total\"}|In total "
    "@{n:10:900} thousand (20@{n:18:25}), @{n:2:19} % more than the year before. The method "
    "changed in 20@{n:15:20}; figures before that are not comparable.",
};
TOOLSET_LISTS(research);

// ---- operations

static const char *const ops_tools[] = {
    "query_metrics|Evaluate a metrics expression over a time "
    "range.|expression:string!:PromQL|start:string!:Start|end:string!:End|step:string:Resolution",
    "get_logs|Fetch log lines of a service.|service:string!:The service|since:string!:Duration "
    "such as 15m|grep:string:Filter|limit:integer:Lines",
    "describe_pod|State and events of a pod.|namespace:string!:The namespace|pod:string!:The pod",
    "scale|Change the number of replicas.|service:string!:The service|replicas:integer!:How many",
    "rollback|Return to the previous release.|service:string!:The service|reason:string!:For the "
    "audit log",
    "page|Call the person on duty.|team:string!:The team|message:string!:What is wrong",
    NULL,
};
static const char *const ops_system[] = {
    "You assist the engineer on call. Diagnose first. Anything that changes production needs the "
    "words \"go ahead\" from the user, except scaling up by at most two replicas.",
    "You are an incident bot. Keep a timeline in UTC. State hypotheses with the evidence for and "
    "against them, cheapest check first.",
};
static const char *const ops_what[] = {
    "checkout latency",
    "the @{noun} queue",
    "the error rate of the @{noun} API",
    "memory of the @{adjective} worker",
    "disk usage on the @{noun} nodes",
    "certificate renewal",
    "replication lag",
    "the nightly @{noun} job",
};
static const char *const ops_task[] = {
    "Alert: @{what} above threshold for @{n:5:55} minutes. What is going on?",
    "Since the deployment at @{n:10:22}:@{n:10:59} something is wrong with @{what}. Confirm or "
    "refute that the release is the cause.",
    "Write the incident report for last night, @{n:0:5}:@{n:10:59} to @{n:6:8}:@{n:10:59} UTC; it "
    "was about @{what}. Collect the facts yourself.",
    "We expect @{n:3:12} times the traffic on Friday. Is @{what} ready? Show me the headroom and "
    "what would break first.",
    "Go ahead and fix @{what}, but nothing that restarts the database.",
    "Compare @{what} in both regions over the last @{n:2:48} hours and tell me which one is lying.",
};
static const char *const ops_call[] = {
    "get_logs|{\"service\": \"@{noun}-api\", \"since\": \"15m\", \"grep\": \"error\", \"limit\": "
    "5}|@{n:10:22}:@{n:10:59}:@{n:10:59}Z error @{verb} @{noun}: context deadline exceeded "
    "(@{n:1000:9999} ms)\n@{n:10:22}:@{n:10:59}:@{n:10:59}Z error pool exhausted: "
    "@{n:10:99}/@{n:10:99} in use\n@{n:10:22}:@{n:10:59}:@{n:10:59}Z warn retry @{n:1:3} of 3",
    "describe_pod|{\"namespace\": \"prod\", \"pod\": \"@{noun}-worker-@{hex:5}\"}|Status: "
    "CrashLoopBackOff; last exit 137 (OOMKilled) @{n:1:50} minutes ago; limits: memory @{n:1:4}Gi; "
    "restarts: @{n:3:40}",
};
TOOLSET_LISTS(ops);

// ---- travel

static const char *const travel_tools[] = {
    "find_trains|Connections between two "
    "stations.|origin:string!:Station|destination:string!:Station|depart:string!:RFC "
    "3339|via:string:Station|max_changes:integer:At most",
    "find_hotels|Free rooms.|city:string!:The city|check_in:string!:Date|nights:integer!:How "
    "many|guests:integer!:How many|max_price:integer:Per night in euros",
    "weather|Forecast for a place.|place:string!:The place|date:string!:Date",
    "book|Make a booking.|offer_id:string!:From a search|travellers:array!:Names as in the "
    "passport",
    "convert_currency|Convert an amount.|amount:number!:The amount|from:string!:ISO "
    "code|to:string!:ISO code",
    NULL,
};
static const char *const travel_system[] = {
    "You plan journeys by rail. Never book without showing the price and getting a yes. Prefer "
    "fewer changes to shorter times.",
    "You are a travel agent for families with small children: long changes, early dinners, no "
    "flights. Answer with a plan by day.",
};
static const char *const travel_what[] = {
    "Vienna to Ljubljana", "Lisbon to Porto",  "Oslo to Bergen", "Naples to Palermo",
    "Hamburg to Malmö",    "Kraków to Prague", "Lyon to Turin",  "Glasgow to Inverness",
};
static const char *const travel_task[] = {
    "We want to go from @{what} on @{n:2:28} June with @{n:1:4} children and bikes, home @{n:3:9} "
    "days later. What does it cost?",
    "Plan @{n:3:8} days along the route @{what}, no more than @{n:2:5} hours on a train per day, "
    "at most @{n:70:180} euros a night.",
    "Is it going to rain if I travel @{what} tomorrow? If so, find me something indoors halfway.",
    "My train @{what} is cancelled. It is @{n:4:9} pm. Get me there today, or a bed where I am.",
    "Two people, one in @{what} direction, one the other way: where should we meet for lunch on "
    "Saturday?",
    "Book the cheapest connection @{what} for @{name} and @{name#2} on the @{n:2:28}th, but not "
    "before @{n:8:11} in the morning.",
};
static const char *const travel_call[] = {
    "find_trains|{\"origin\": \"Wien Hbf\", \"destination\": \"Ljubljana\", \"depart\": "
    "\"2026-06-@{n:10:28}T0@{n:6:9}:00:00+02:00\", \"max_changes\": 1}|[{\"offer_id\": "
    "\"t_@{hex:6}\", \"depart\": \"0@{n:6:9}:@{n:10:58}\", \"arrive\": \"1@{n:3:6}:@{n:10:58}\", "
    "\"changes\": @{n:0:1}, \"eur\": @{n:29:119}.90}]",
    "weather|{\"place\": \"Ljubljana\", \"date\": \"2026-06-@{n:10:28}\"}|Showers from noon, "
    "@{n:14:26} degrees, wind @{n:2:30} km/h",
};
TOOLSET_LISTS(travel);

const struct fg_toolset fg_toolsets[] = {
    {"coding", coding_tools, coding_lists},
    {"data", data_tools, data_lists},
    {"coding", coding_tools, coding_lists},
    {"office", office_tools, office_lists},
    {"research", research_tools, research_lists},
    {"ops", ops_tools, ops_lists},
    {"coding", coding_tools, coding_lists},
    {"support", support_tools, support_lists},
    {"travel", travel_tools, travel_lists},
    {"home", home_tools, home_lists},
    {0},
};
