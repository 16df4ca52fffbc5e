// corpus/data_eval.c: evaluation prompts. Stretches without a slot are short: sets of evaluation
// and training prompts share no run of eight words, and a long stretch would belong to one of them.
#include "corpus/prompts_data.h"

// ---- words of several domains

static const char *const who[] = {
    "Astrid", "Benoît", "Carmen", "Deepa",  "Emeka",  "Fatima", "Gustav",
    "Hana",   "Ivo",    "Jelena", "Kofi",   "Leila",  "Marek",  "Noor",
    "Oskar",  "Petra",  "Rashid", "Svenja", "Thiago", "Vesna",
};

static const char *const tone[] = {
    "Aim at clarity.",
    "Stay under a page.",
    "Doubt your first idea.",
    "Write plainly.",
    "Go deep rather than wide.",
    "Mention one counterexample.",
    "Say how sure you are.",
    "Leave out pleasantries.",
    "Finish with a check.",
    "One example is enough.",
    "Think about the failure first.",
    "Define your terms.",
    "Weigh two alternatives.",
    "Draw on first principles.",
    "Be concrete throughout.",
    "Keep the order of events.",
};

static const char *const level[] = {
    "a nurse",           "a retired engineer", "an apprentice carpenter",
    "my book club",      "a city council",     "a first-year physicist",
    "a sceptical uncle", "a sixth grader",     "a documentary narrator",
    "a chess trainer",   "a patent examiner",  "a gardener",
};

static const char *const note[] = {
    "No rush.",
    "Quietly, please.",
    "@{who#9} signs off.",
    "Budget: @{n:5:90} minutes.",
    "Evidence beats opinion.",
    "Report in a table.",
    "Ask once if unsure.",
    "Leave a trail.",
};

const struct fg_phrase_list fg_eval_common[] = {
    FG_PHRASE_LIST(who), FG_PHRASE_LIST(tone), FG_PHRASE_LIST(level), FG_PHRASE_LIST(note), {0},
};

// ---- code

static const char *const tongue[] = {
    "Python",
    "C",
    "Rust",
    "Go",
    "Java",
    "TypeScript",
    "C++",
    "Haskell",
    "Kotlin",
    "Ruby",
    "SQL with recursion",
    "Scheme",
    "Julia",
    "Lua",
    "C#",
    "Swift",
};

static const char *const job_code[] = {
    "lays out crossword grids",
    "balances a chemical equation",
    "simulates an elevator bank",
    "plays optimal tic-tac-toe",
    "compacts a fragmented heap",
    "typesets text with hyphenation",
    "finds bridges in a network",
    "matches organ donors",
    "predicts ferry tides from samples",
    "bins galaxies by redshift",
    "checks a Sudoku with one lie",
    "reorders sentences by difficulty",
    "turns hand-drawn strokes into curves",
    "inverts a permutation in place",
    "streams a zip archive",
    "paginates a ledger",
    "colours a map with four colours",
    "derives symbolic gradients",
    "estimates pi from rain",
    "replays chess games from notation",
    "detects plagiarism among essays",
    "routes trams around closures",
    "samples from a Markov text model",
    "packs furniture into a van",
    "converts sheet music to MIDI",
    "finds palindromic substrings",
    "measures clock drift between hosts",
    "merges address books",
    "tracks vaccine cold chains",
    "draws fractal coastlines",
    "splits a restaurant bill fairly",
    "infers column types of data files",
    "bakes navigation meshes",
    "votes by ranked choice",
    "undoes edits across documents",
    "ranks tennis players",
    "plans watering of fields",
    "indexes recipes by ingredient",
    "guesses the language of a sentence",
    "folds constants in an expression tree",
    "renders a star chart",
    "deduplicates photographs",
    "audits file permissions",
    "decodes Morse from audio levels",
    "keeps score in bowling",
    "optimizes a knitting pattern",
    "finds the convex hull of towns",
    "translates cron lines into prose",
};

static const char *const twist[] = {
    "Memory is capped at a megabyte.",
    "Results must be reproducible.",
    "It runs on a watch.",
    "Inputs arrive out of order.",
    "Half of the data is missing.",
    "Readers will copy your code.",
    "A teacher will grade it.",
    "Property tests come first.",
    "Nobody may lock anything.",
    "Ties need a rule.",
    "Units differ between rows.",
    "Cancelling must be possible.",
    "Streaming beats batching here.",
    "Explain the data layout.",
    "Two passes at most.",
    "Undo has to work.",
    "The hot loop decides.",
    "Bad records go to a side file.",
    "Numbers exceed 64 bits.",
    "Make the invariants explicit.",
    "Show a trace of a run.",
    "Prove that it terminates.",
    "Give the memory layout.",
    "Start from the types.",
};

static const char *const flaw[] = {
    "```python\ndef median(v):\n    v.sort()\n    return v[len(v) / 2]\n```",
    "```c\n#define SQUARE(x) x * x\nint area = SQUARE(side + 1);\n```",
    ("```c\nstruct node *pop(struct node **head)\n{\n    free(*head);\n    *head = "
     "(*head)->next;\n "
     "   return *head;\n}\n```"),
    "```go\nm := map[string]int{}\ngo func() { m[\"a\"]++ }()\nfmt.Println(m[\"a\"])\n```",
    "```rust\nlet total: u32 = prices.iter().map(|p| p * 100.0).sum::<f32>() as u32;\n```",
    "```javascript\nif (user.age == '18' || user.role = 'admin') allow();\n```",
    "```java\nString key = null;\nif (key.equals(stored)) unlock();\n```",
    "```sql\nDELETE FROM sessions WHERE expires < NOW() OR user_id;\n```",
    "```python\nfor k in cache:\n    if cache[k].old():\n        del cache[k]\n```",
    "```cpp\nBase b = Derived{};\nb.draw(); // prints Base\n```",
    "```bash\nif [ $1 == \"\" ]; then rm -r /tmp/$2*; fi\n```",
    "```typescript\nconst ids = await Promise.all(rows.forEach(r => save(r)));\n```",
    "```haskell\nfact n = n * fact (n - 1)\nfact 0 = 1\n```",
    "```ruby\nnames = users.map { |u| u.name if u.active }\nputs names.sort.first(3)\n```",
    ("```csharp\nforeach (var f in Directory.GetFiles(dir)) using (var s = File.OpenRead(f)) "
     "tasks.Add(s.CopyToAsync(target));\n```"),
    "```swift\nlet index = text.index(text.startIndex, offsetBy: 300)\nprint(text[index])\n```",
};

static const char *const verdict[] = {
    "Spot every defect.",  "Which line is guilty?",  "Repair and justify.", "Does this compile?",
    "Predict the output.", "Where does it blow up?", "Rank the problems.",  "Suggest a unit test.",
};

static const char *const code_prompt[] = {
    "In @{tongue}: code that @{job_code}. @{twist} @{tone}",
    "Sketch a module, @{tongue} preferred, which @{job_code}. @{twist} @{twist#2}",
    ("@{who} wants a tool that @{job_code}; @{who#2} wants one that @{job_code#2}. One design, in "
     "@{tongue}? @{twist}"),
    "@{verdict} @{tone}\n\n@{flaw}",
    "@{flaw}\n\n@{verdict} @{verdict#2} Then rewrite it in @{tongue}.",
    "Give me pseudocode, then @{tongue}, for a thing that @{job_code}. @{twist}",
    "Is @{tongue} or @{tongue#2} the better home for software that @{job_code}? @{tone}",
    "How long would it take you to test something that @{job_code}? List cases. @{twist}",
};
const struct fg_phrase_list fg_eval_code[] = {
    {"prompt", code_prompt, sizeof code_prompt / sizeof code_prompt[0]},
    FG_PHRASE_LIST(tongue),
    FG_PHRASE_LIST(job_code),
    FG_PHRASE_LIST(twist),
    FG_PHRASE_LIST(flaw),
    FG_PHRASE_LIST(verdict),
    {0},
};

// ---- mathematics

static const char *const object[] = {
    "a regular @{n:5:13}-gon",
    "a torus of radii @{n:3:9} and @{n:1:2}",
    "the parabola y = @{n:2:7}x^2 - @{n:1:30}",
    "a spiral staircase of @{n:40:180} steps",
    "the curve x^@{n:3:7} + y^@{n:3:7} = @{n:2:60}",
    "a deck with @{n:20:60} cards",
    "a walk of @{n:8:60} steps on the integers",
    "a random graph on @{n:9:90} vertices",
    "an urn with @{n:4:9} white and @{n:5:19} black balls",
    "the sequence @{n:2:5}, @{n:6:9}, @{n:10:19}, @{n:20:50}, ...",
    "the polynomial z^@{n:3:8} - @{n:2:99}",
    "a @{n:3:7} by @{n:8:15} chessboard",
    "a pyramid of @{n:5:40} layers of oranges",
    "a clock whose hands differ by @{n:5:170} degrees",
};

static const char *const wonder[] = {
    "What is special about",    "Count the symmetries of",
    "Bound the size of",        "Describe the typical behaviour of",
    "Find an invariant of",     "Set up an equation for",
    "What fraction is lost in", "Compute the expected value for",
    "Classify all cases of",    "Approximate to three digits",
};

static const char *const theorem[] = {
    "Bézout's identity",
    "the handshake lemma",
    "the mean value theorem",
    "Fermat's little theorem",
    "Hall's marriage theorem",
    "Cauchy–Schwarz",
    "the pigeonhole principle",
    "Stirling's formula",
    "the inclusion–exclusion formula",
    "Euler's polyhedron formula",
    "Bayes' rule",
    "the Chinese remainder theorem",
    "the intermediate value theorem",
    "Pick's theorem",
    "the law of cosines",
    "Markov's inequality",
};

static const char *const chore[] = {
    "Derive it from scratch.", "Where does it fail?",     "State the sharp version.",
    "Use it on a toy case.",   "Who needs it, and why?",  "Visualize it.",
    "Find a converse.",        "Translate it into code.",
};

static const char *const deal[] = {
    "lends @{n:200:9000} crowns at @{n:2:8} percent",
    "walks @{n:3:29} km at @{n:4:6} km/h",
    "mixes @{n:2:9} kg of @{n:10:45}-percent brine",
    "saves @{n:11:90} coins every @{n:2:9} weeks",
    "cuts a @{n:4:30} m rope into @{n:3:8} pieces",
    "rolls @{n:2:5} dice @{n:6:30} times",
    "paints @{n:20:95} square metres in @{n:2:7} hours",
    "ages twice as fast as a @{n:3:17}-year-old tree",
};

static const char *const math_prompt[] = {
    "@{wonder} @{object}. @{tone}",
    "@{wonder} @{object}, then of @{object#2}. @{tone}",
    "@{theorem}: @{chore} @{chore#2} @{tone}",
    "Connect @{theorem} with @{theorem#2}. @{chore}",
    "@{who} @{deal}; @{who#2} @{deal#2}. Who is ahead after @{n:2:20} rounds? @{tone}",
    "@{who} @{deal}. Vary one number until the answer flips. @{tone}",
    ("Evaluate @{n:11:99} x @{n:101:989} - @{n:2:9}^@{n:3:6} mentally and narrate the shortcuts. "
     "@{tone}"),
    "Let p = @{n:11:61} and q = @{n:62:97}. @{wonder} the residues of @{n:2:9} modulo pq. @{tone}",
    "Does @{theorem} say anything about @{object}? @{tone}",
};
const struct fg_phrase_list fg_eval_math[] = {
    {"prompt", math_prompt, sizeof math_prompt / sizeof math_prompt[0]},
    FG_PHRASE_LIST(object),
    FG_PHRASE_LIST(wonder),
    FG_PHRASE_LIST(theorem),
    FG_PHRASE_LIST(chore),
    FG_PHRASE_LIST(deal),
    {0},
};

// ---- science

static const char *const phenomenon[] = {
    "geyser eruptions",
    "blue jets above thunderstorms",
    "the placebo response",
    "sourdough microbes",
    "coral bleaching",
    "superconductivity",
    "tidal locking",
    "insect metamorphosis",
    "radiocarbon dating",
    "antibody diversity",
    "continental drift",
    "neutron stars",
    "ice ages",
    "photosynthesis at night",
    "colour blindness",
    "echolocation",
    "soap films",
    "gene drives",
    "muon showers",
    "capillary rise",
    "fever",
    "whale falls",
    "glass transition",
    "quantum tunnelling",
    "the greenhouse effect",
    "venom resistance",
    "ocean acidification",
    "gravitational lensing",
    "synaptic pruning",
    "lichens",
    "ball lightning",
    "peat bogs",
    "prions",
    "auroral sounds",
    "supercooled clouds",
    "tree rings",
    "hibernation",
    "crystal growth",
    "salt marshes",
    "planetary rings",
    "enzyme inhibition",
    "bird navigation",
    "wildfire weather",
    "vaccine adjuvants",
    "seismic tomography",
    "fluorescence",
    "nitrogen fixation",
    "rogue waves",
    "cosmic microwave background",
    "circadian clocks",
};

static const char *const inquiry[] = {
    "What drives",
    "Who first explained",
    "Which experiment would settle debates about",
    "How do we measure",
    "What would Earth lack without",
    "Trace the energy through",
    "Model in three equations",
    "Dispel a myth about",
    "Where do textbooks oversimplify",
    "What remains mysterious about",
    "List scales of length and time for",
    "How might climate change alter",
};

static const char *const lens[] = {
    "Compare with @{phenomenon#2}.",
    "Relate it to @{phenomenon#3}.",
    "Tell it to @{level}.",
    "Estimate one number.",
    "Name the instrument.",
    "Mention the controversy.",
    "Cite no one.",
    "Describe a home experiment.",
    "Give the history in a paragraph.",
    "Use an analogy, then break it.",
};

static const char *const science_prompt[] = {
    "@{inquiry} @{phenomenon}? @{lens}",
    "@{inquiry} @{phenomenon}? @{lens} @{lens#2} @{tone}",
    "@{A:level} asks about @{phenomenon} and about @{phenomenon#2}. @{lens} @{tone}",
    "Quiz me on @{phenomenon}: @{n:3:7} questions, rising difficulty. @{lens}",
    "Imagine that @{phenomenon} stopped for @{n:2:90} days. @{lens} @{tone}",
    "Could @{phenomenon} exist on Mars? @{lens} @{lens#2}",
    "@{who} mixes up @{phenomenon} and @{phenomenon#2}. Untangle them. @{tone}",
};
const struct fg_phrase_list fg_eval_science[] = {
    {"prompt", science_prompt, sizeof science_prompt / sizeof science_prompt[0]},
    FG_PHRASE_LIST(phenomenon),
    FG_PHRASE_LIST(inquiry),
    FG_PHRASE_LIST(lens),
    {0},
};

// ---- writing

static const char *const form[] = {
    "a limerick",
    "a eulogy",
    "a product recall notice",
    "a ghost story",
    "a haiku sequence",
    "a wedding toast",
    "a museum label",
    "an op-ed",
    "a bedtime story",
    "a resignation letter",
    "a film pitch",
    "a sonnet",
    "a diary entry",
    "a sea shanty",
    "a cover letter",
    "an apology",
    "a fable",
    "a radio play",
    "a villanelle",
    "a restaurant review",
    "an obituary for an object",
    "a stand-up routine",
    "a travel essay",
    "a manifesto",
};

static const char *const subject[] = {
    "a lighthouse that dislikes ships",
    "the last typewriter in town",
    "two rivals sharing an umbrella",
    "a town without mirrors",
    "an overdue library book",
    "a robot learning to whistle",
    "the smell of rain on dust",
    "grandmother's unfinished quilt",
    "a bridge nobody crosses",
    "an argument about soup",
    "the inventor of the pause button",
    "a cartographer who lies",
    "a garden on the moon",
    "the night the power failed",
    "a beekeeper's secret",
    "learning to lose",
    "a train that is always early",
    "the colour of silence",
    "moving out",
    "a clockmaker's debt",
    "a dog that reads maps",
    "the market after closing",
    "an accidental emperor",
    "snow in July",
};

static const char *const voice[] = {
    "First person, present tense.",
    "No adjectives.",
    "In the manner of a field guide.",
    "With a twist at the end.",
    "As a dialogue.",
    "Exactly @{n:80:220} words.",
    "Every sentence starts differently.",
    "From the villain's view.",
    "Warm but unsentimental.",
    "In @{n:3:9} stanzas or sections.",
    "Told backwards.",
    "For reading aloud.",
};

static const char *const edit[] = {
    "Shorten",
    "Make less formal",
    "Turn into bullet points",
    "Rewrite for @{level}",
    "Strip the clichés from",
    "Add tension to",
    "Translate into plain English",
    "Give a new title and ending to",
};

static const char *const draft[] = {
    ("It is with great pleasure that the committee announces, after @{n:2:9} months of "
     "deliberation, that @{subject} shall henceforth be commemorated"),
    ("@{who} stood at the window. Outside, @{subject}; inside, the kettle and @{n:2:12} unanswered "
     "letters"),
    ("Our quarterly synergy @{n:10:99} leverages @{subject} to unlock value for @{level} going "
     "forward"),
    ("Nobody in the valley remembered when @{who} had begun to talk about @{subject}, only that it "
     "never stopped"),
    ("Dear neighbours, concerning @{subject}: the @{n:2:28}th will be noisy, and @{who} regrets "
     "this deeply"),
};

static const char *const writing_prompt[] = {
    "Write @{form} about @{subject}. @{voice} @{voice#2}",
    "@{A:form}, please: @{subject}. @{voice}",
    "Combine @{subject} with @{subject#2} in @{form}. @{voice}",
    "@{edit} this: \"@{draft}.\" @{voice}",
    "@{edit} the following, keeping the facts: \"@{draft}.\" Then write @{form} from it.",
    "@{who} needs @{form} by tonight; the topic is @{subject}. @{voice} @{tone}",
    "Outline a novel on @{subject}: @{n:5:12} chapters, a line each. @{voice}",
};
const struct fg_phrase_list fg_eval_writing[] = {
    {"prompt", writing_prompt, sizeof writing_prompt / sizeof writing_prompt[0]},
    FG_PHRASE_LIST(form),
    FG_PHRASE_LIST(subject),
    FG_PHRASE_LIST(voice),
    FG_PHRASE_LIST(edit),
    FG_PHRASE_LIST(draft),
    {0},
};

// ---- long reasoning

static const char *const puzzle_rule[] = {
    "@{who} sits opposite @{who#2}",
    "@{who#3} left before the bells",
    "nobody wearing @{hue} speaks first",
    "@{who#2} owes @{who#4} exactly @{n:2:30}",
    "the @{hue} door is never locked twice running",
    "@{who#4} and @{who#5} swap every third day",
    "whoever has the @{item} must not have the @{item#2}",
    "@{who#5} saw the @{item#3} after @{who} did",
    "odd days belong to @{who#3}",
    "the @{item#2} weighs more than two @{item#3}s",
    "@{who} lies when holding the @{item}",
    "@{hue#2} comes directly after @{hue}",
    "at most @{n:2:3} people know where the @{item} is",
    "@{who#2} never follows @{who#5}",
};

static const char *const hue[] = {"amber", "violet", "teal", "scarlet", "ivory", "olive", "indigo"};

static const char *const item[] = {"lantern",   "compass", "violin",  "ledger", "anvil",
                                   "telescope", "teapot",  "sextant", "carpet"};

static const char *const errand[] = {
    "ferry @{n:4:9} travellers across a river with @{n:2:3} boats",
    "schedule @{n:9:24} talks in @{n:3:5} rooms",
    "seat @{n:8:20} guests with @{n:3:6} feuds",
    "supply @{n:4:9} huts before the snow",
    "repair @{n:5:14} bridges with @{n:2:4} crews",
    "deliver @{n:11:40} parcels on @{n:2:4} bicycles",
    "ration water for @{n:9:60} people over @{n:6:21} days",
    "rebuild a bookshelf of @{n:200:900} volumes by three orders at once",
    "audit @{n:6:15} ledgers with @{n:2:3} missing pages",
    "stage a play with @{n:5:9} actors and @{n:10:16} roles",
};

static const char *const hitch[] = {
    "one helper falls ill on day @{n:2:5}",
    "costs double after @{n:3:9} hours",
    "the map omits a road",
    "two instructions contradict each other",
    "rain halves the speed",
    "someone must be home by @{n:4:7}",
    "fuel lasts @{n:20:90} km",
    "a @{item} has to come along",
    "the budget is @{n:90:900}",
};

static const char *const dilemma[] = {
    "Should a town of @{n:4:80} thousand pave the marsh or raise the dyke?",
    "Is it rational to buy insurance for a @{n:40:400} euro bicycle?",
    "Would you split a prize of @{n:1000:9000} by effort or by need?",
    "When does a rumour become worth printing?",
    "Can @{n:3:9} witnesses who agree in detail be less credible than two who do not?",
    "Which is fairer: a lottery, a queue or an auction for @{n:20:300} gardens?",
    "How would one detect that a coin was swapped after @{n:50:500} tosses?",
    "What does a map of @{n:1:9} to 25 thousand owe to the truth?",
};

static const char *const reasoning_prompt[] = {
    ("Known: @{puzzle_rule}; @{puzzle_rule#2}; @{puzzle_rule#3}; @{puzzle_rule#4}; "
     "@{puzzle_rule#5}. Is it consistent? Enumerate the possibilities. @{tone}"),
    "Plan: @{errand}, but @{hitch} and @{hitch#2}. Compare at least @{n:2:4} plans. @{tone}",
    ("@{who} must @{errand} and then @{errand#2}; @{hitch}. Work backwards from the deadline. "
     "@{tone}"),
    "@{dilemma} Argue both sides, quantify, decide. @{tone}",
    "@{dilemma} @{dilemma#2} Show that your answers are compatible. @{tone}",
    ("Rules of a game: @{puzzle_rule}; @{puzzle_rule#2}; @{puzzle_rule#3}. @{who} moves first. Is "
     "there a winning strategy? @{tone}"),
};
const struct fg_phrase_list fg_eval_reasoning[] = {
    {"prompt", reasoning_prompt, sizeof reasoning_prompt / sizeof reasoning_prompt[0]},
    FG_PHRASE_LIST(puzzle_rule),
    FG_PHRASE_LIST(hue),
    FG_PHRASE_LIST(item),
    FG_PHRASE_LIST(errand),
    FG_PHRASE_LIST(hitch),
    FG_PHRASE_LIST(dilemma),
    {0},
};
