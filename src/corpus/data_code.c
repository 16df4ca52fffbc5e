// corpus/data_code.c: training prompts about code: data structures across 30 languages, reviews of
// code with mistakes in it, concepts of systems.
#include "corpus/prompts_data.h"

static const char *const lang[] = {
    "Ada",        "Bash",   "C",      "C#",   "C++",     "Clojure", "Common Lisp", "D",
    "Dart",       "Elixir", "Erlang", "F#",   "Fortran", "Go",      "Haskell",     "Java",
    "JavaScript", "Julia",  "Kotlin", "Lua",  "Nim",     "OCaml",   "Perl",        "PHP",
    "Python",     "R",      "Ruby",   "Rust", "Scala",   "Swift",   "TypeScript",  "Zig",
};

static const char *const structure[] = {
    "a ring buffer",
    "a binary heap",
    "a skip list",
    "a trie",
    "a radix tree",
    "a red-black tree",
    "an AVL tree",
    "a B-tree",
    "a Fenwick tree",
    "a segment tree",
    "an interval tree",
    "a union-find structure",
    "an LRU cache",
    "an LFU cache",
    "a Bloom filter",
    "a cuckoo hash table",
    "a Robin Hood hash table",
    "a consistent hashing ring",
    "a doubly linked list",
    "a lock-free stack",
    "a bounded blocking queue",
    "a priority queue with decrease-key",
    "a rope for text editing",
    "a gap buffer",
    "a sparse matrix in CSR form",
    "a k-d tree",
    "a quadtree",
    "a treap",
    "a splay tree",
    "a suffix array",
    "a count-min sketch",
    "a HyperLogLog counter",
    "a persistent vector",
    "a bitset with rank and select",
    "a directed graph with adjacency lists",
    "an event log with snapshots",
    "a timer wheel",
    "a memory pool",
    "an arena allocator",
    "a string interner",
};

static const char *const task[] = {
    "reads a CSV file with quoted fields and prints the sum of a column",
    "merges overlapping time ranges",
    "parses an arithmetic expression with parentheses and evaluates it",
    "walks a directory tree and reports duplicate files by content",
    "converts Roman numerals to integers and back",
    "prints a calendar month as a table",
    "computes the edit distance of two words",
    "tails a log file and survives its rotation",
    "downloads a list of addresses with at most four requests at a time",
    "finds the shortest path through a maze given as lines of text",
    "compresses text with run-length encoding",
    "validates an ISO 8601 date without a library",
    "renders Markdown headings and lists as HTML",
    "diffs two configuration files key by key",
    "schedules jobs by their dependencies and detects cycles",
    "counts words in a large file using little memory",
    "solves a sudoku by constraint propagation",
    "keeps a moving median of a stream of numbers",
    "formats byte counts for people",
    "parses command-line flags with subcommands",
    "plays Conway's Game of Life on a torus",
    "turns a tree of comments into indented text",
    "reads a binary file header and checks its magic number",
    "implements a small key-value store on top of an append-only file",
    "generates all partitions of a set",
    "rate-limits callers with a token bucket",
    "converts between UTF-8 and code points by hand",
    "groups anagrams in a word list",
    "simulates a bank queue with random arrivals",
    "retries a flaky operation with exponential backoff and jitter",
    "draws a histogram in the terminal",
    "topologically sorts a build graph",
    "tokenizes a small language with comments and string escapes",
    "multiplies two polynomials given as coefficient lists",
    "encodes and decodes base64 without a library",
    "picks k random lines from a file in one pass",
    "assigns students to rooms by preference",
    "detects whether two rectangles on a grid intersect",
    "prints the first thousand primes with a sieve",
    "checks whether brackets of four kinds are balanced",
};

static const char *const constraint[] = {
    "Use nothing outside the standard library.",
    "Handle empty input and invalid input explicitly.",
    "It must not allocate in the inner loop.",
    "State the complexity of every operation.",
    "Avoid recursion.",
    "Write it so that it can be tested without I/O.",
    "Assume that the input does not fit into memory.",
    "Explain each non-obvious line in a comment.",
    "Keep the public interface to three functions.",
    "Make illegal states unrepresentable.",
    "Think about integer overflow.",
    "It has to be safe for several threads.",
    "Follow the conventions of the language closely.",
    "Prefer clarity over cleverness.",
    "Add a short benchmark.",
    "Include a usage example.",
    "Document who owns which memory.",
    "Errors must name what was expected and what was found.",
    "Do it in fewer than sixty lines.",
    "Show two versions: a naive one and a fast one.",
};

static const char *const concept[] = {
    "how a garbage collector finds live objects",
    "what a memory barrier guarantees",
    "why false sharing slows programs down",
    "the difference between a mutex and a semaphore",
    "how copy-on-write works after fork",
    "what happens between typing an address and seeing a page",
    "how a B-tree index answers a range query",
    "what isolation levels of a database permit",
    "the CAP theorem and what it does not say",
    "how TLS agrees on a key",
    "why floating-point addition is not associative",
    "how virtual memory maps pages",
    "what the borrow checker of Rust proves",
    "how a hash join differs from a merge join",
    "what backpressure means in a stream pipeline",
    "how Raft elects a leader",
    "why two-phase commit blocks",
    "how DNS caching can go wrong",
    "what idempotency keys are for",
    "how a JIT compiler deoptimizes",
    "how branch prediction works",
    "what a vector clock orders",
    "how epoll differs from select",
    "why timeouts need deadlines that are passed on",
    "how content-defined chunking finds duplicates",
    "what an inode is",
    "how a write-ahead log survives a crash",
    "why unbounded queues hide overload",
    "how git stores a commit",
    "what tail-call elimination needs",
    "how a packet crosses a NAT",
    "what a cache line is and why 64 bytes",
    "how lazy evaluation shares work",
    "what covariance means for generic types",
    "how a linker resolves symbols",
    "why clocks of two machines disagree",
    "how feature flags go stale",
    "what makes a schema migration safe",
    "how container images are layered",
    "why tests that sleep are flaky",
};

static const char *const aspect[] = {
    "error handling",   "memory management", "concurrency",      "string handling",
    "iteration",        "numeric types",     "immutability",     "generics",
    "module structure", "resource clean-up", "pattern matching", "testing",
};

static const char *const symptom[] = {
    "doubles its memory every six hours",
    "answers slowly on the first request after a pause",
    "returns stale data for a minute after a write",
    "stops accepting connections at about a thousand clients",
    "loses one message in ten thousand",
    "uses all of one core while the other seven idle",
    "fails only on Mondays",
    "logs a time-out although the database answers in two milliseconds",
    "restarts in a loop with exit code 137",
    "writes the same invoice twice",
    "shows dates that are off by one day for some users",
    "runs out of file descriptors",
    "gets slower with every deployment",
    "passes its tests locally and fails them in CI",
    "deadlocks under load but never in staging",
    "sends e-mails in the wrong order",
};

static const char *const situation[] = {
    "traffic doubles",
    "a replica is promoted",
    "the certificate is renewed",
    "the cache is cold",
    "two users edit the same record",
    "a consumer lags behind",
    "the clock changes to summer time",
    "the disk is nearly full",
    "a large tenant is imported",
    "a node is drained",
    "a dependency returns 503",
    "the nightly backup runs",
};

static const char *const stack[] = {
    "Go services behind nginx with PostgreSQL",
    "a Django monolith with Redis and Celery",
    "Spring Boot on Kubernetes with Kafka",
    "a Rails application with MySQL",
    "Node.js workers that read from RabbitMQ",
    "a Rust daemon with SQLite",
    "an Elixir cluster with Postgres",
    "PHP-FPM with a shared NFS mount",
    "a C++ trading gateway on bare metal",
    "Python functions on a serverless platform",
    "a .NET API with SQL Server",
    "a Scala job on Spark",
};

static const char *const system_kind[] = {
    "a job scheduler",
    "a URL shortener",
    "a photo thumbnail pipeline",
    "a seat reservation service",
    "a notification service",
    "an audit log",
    "a feature flag service",
    "a chat back end",
    "a metrics store",
    "a document search",
    "a sync engine for offline notes",
    "a payment reconciliation job",
    "a build cache",
    "a rate limiter for an API",
    "an import tool for messy spreadsheets",
    "a collaborative drawing board",
};

static const char *const requirement[] = {
    "keep working when one data centre is gone",
    "never process an item twice",
    "answer within 50 ms for 99 % of requests",
    "delete a person's data on demand",
    "cost less than a hundred euros a month",
    "be operated by two people",
    "replay last month's events",
    "serve clients that are offline for days",
    "survive a bad deployment without data loss",
    "explain every decision to an auditor",
    "import ten years of history in a night",
    "let tenants bring their own encryption keys",
};

static const char *const edge[] = {
    "an empty input",
    "a single element",
    "duplicate keys",
    "the largest integer",
    "input that is not UTF-8",
    "a time zone change",
    "a symbolic link loop",
    "a full disk",
    "a reader that stops early",
    "negative numbers",
    "two threads at once",
    "a cancelled request",
    "trailing white space",
    "a key that is a prefix of another",
    "a leap second",
    "a zero-length file",
};

static const char *const unit[] = {
    "a function that parses durations such as 1h30m",
    "a shopping cart with discounts",
    "a retry helper",
    "a Markdown table formatter",
    "a version comparison function",
    "a path normalizer",
    "a date range iterator",
    "a template renderer",
    "a permission check with roles",
    "a paginated API client",
    "a CSV writer",
    "a unit converter",
    "a slug generator",
    "a state machine for orders",
    "a diff algorithm on lists",
    "a configuration loader with overrides",
};

static const char *const schema[] = {
    "orders(id, customer_id, placed_at, total_cents) and customers(id, country, created_at)",
    "employees(id, manager_id, name, salary) and departments(id, name, head_id)",
    "readings(sensor_id, taken_at, celsius) and sensors(id, site, installed_on)",
    "loans(copy_id, member_id, lent_on, due_on, returned_on) and copies(id, isbn, branch)",
    "matches(id, home, away, home_goals, away_goals, played_on) and teams(id, name, city)",
    "page_views(user_id, path, seen_at, referrer) and users(id, plan, signed_up_at)",
    "shipments(id, order_id, carrier, shipped_at, delivered_at) and carriers(code, name)",
    "grades(student_id, course_id, term, points) and courses(id, title, credits)",
};

static const char *const query[] = {
    "finds the top three per group and keeps ties",
    "computes a seven-day moving average with gaps filled",
    "lists rows that have no match in the other table",
    "gives the longest streak of consecutive days",
    "pivots the counts by month into columns",
    "walks the hierarchy and prints the depth of each row",
    "finds the median per group without a median function",
    "reports the share of the total for each group and a grand total",
    "detects overlapping intervals of the same key",
    "compares each month with the same month a year before",
};

static const char *const shell[] = {
    "lists the ten largest files below a directory, newest first among equals",
    "renames all files with spaces in their names",
    "counts requests per minute in an access log",
    "finds which process holds a port open",
    "replaces a word in every tracked file of a git repository",
    "shows commits of the last week grouped by author",
    "extracts the third column of a tab-separated file and sums it",
    "watches a directory and runs a command on change",
    "deletes local branches that were merged",
    "prints lines that occur in exactly one of two files",
    "splits a dump into files of a hundred thousand lines with the header repeated",
    "checks every certificate in a folder for its expiry date",
};

static const char *const snippet[] = {
    "```c\nchar *join(const char *a, const char *b)\n{\n    char *out = malloc(strlen(a) + "
    "strlen(b));\n    strcpy(out, a);\n    strcat(out, b);\n    return out;\n}\n```",
    "```c\nint find(const int *v, unsigned n, int key)\n{\n    for (unsigned i = n - 1; i >= 0; "
    "i--) {\n        if (v[i] == key) return i;\n    }\n    return -1;\n}\n```",
    "```python\ndef add_tag(item, tags=[]):\n    tags.append(item.strip())\n    return tags\n```",
    "```python\nasync def load_all(ids):\n    result = []\n    for i in ids:\n        "
    "result.append(asyncio.create_task(load(i)))\n    return result\n```",
    "```python\ndef chunks(items, size):\n    for i in range(0, len(items) - size, size):\n        "
    "yield items[i:i + size]\n```",
    "```go\nfunc worker(jobs []string) {\n\tvar wg sync.WaitGroup\n\tfor _, j := range jobs "
    "{\n\t\tgo func() {\n\t\t\twg.Add(1)\n\t\t\tdefer "
    "wg.Done()\n\t\t\trun(j)\n\t\t}()\n\t}\n\twg.Wait()\n}\n```",
    "```go\nfunc read(path string) []byte {\n\tf, _ := os.Open(path)\n\tdefer f.Close()\n\tb := "
    "make([]byte, 4096)\n\tn, _ := f.Read(b)\n\treturn b[:n]\n}\n```",
    "```javascript\nfunction total(items) {\n  let sum = 0;\n  items.forEach(async (i) => {\n    "
    "sum += await price(i.id) * i.count;\n  });\n  return sum;\n}\n```",
    "```javascript\nconst cache = {};\nfunction once(key, make) {\n  if (!cache[key]) cache[key] = "
    "make();\n  return cache[key];\n}\nonce('constructor', () => 0);\n```",
    "```java\npublic class Counter {\n    private static int hits;\n    public void hit() { "
    "hits++; }\n    public synchronized int get() { return hits; }\n}\n```",
    "```java\nfor (Order o : orders) {\n    if (o.isCancelled()) orders.remove(o);\n}\n```",
    "```rust\nfn first_word(s: &str) -> String {\n    let n = s.find(' ').unwrap();\n    "
    "s[0..n].to_string()\n}\n```",
    "```rust\nlet data = Arc::new(Mutex::new(vec![]));\nfor i in 0..8 {\n    let d = "
    "data.clone();\n    thread::spawn(move || d.lock().unwrap().push(i));\n}\nprintln!(\"{:?}\", "
    "data.lock().unwrap());\n```",
    "```cpp\nstd::string_view label(int id) {\n    std::string s = \"item-\" + "
    "std::to_string(id);\n    return s;\n}\n```",
    "```cpp\nfor (auto it = m.begin(); it != m.end(); ++it) {\n    if (it->second.expired()) "
    "m.erase(it);\n}\n```",
    "```sql\nSELECT c.name, COUNT(o.id)\nFROM customers c LEFT JOIN orders o ON o.customer_id = "
    "c.id\nWHERE o.placed_at >= '2024-01-01'\nGROUP BY c.name;\n```",
    "```sql\nUPDATE stock SET amount = amount - 1 WHERE sku = $1;\nINSERT INTO sales (sku) VALUES "
    "($1);\n```",
    "```bash\nfor f in $(ls *.log); do\n  gzip $f && rm $f.gz\ndone\n```",
    "```bash\nset -e\ncd $BUILD_DIR\nrm -rf *\ncp -r ../dist/* .\n```",
    "```ruby\ndef discount(price, percent)\n  price - price * percent / 100\nend\ndiscount(9, 15) "
    "# => 8?\n```",
    "```php\n$id = $_GET['id'];\n$row = $db->query(\"SELECT * FROM users WHERE id = "
    "$id\")->fetch();\necho \"Hello \" . $row['name'];\n```",
    "```csharp\npublic async void Save(Order o)\n{\n    await repository.StoreAsync(o);\n    "
    "o.Saved = true;\n}\n```",
    "```kotlin\nclass Session(val user: String) {\n    val greeting = \"Hello $name\"\n    val "
    "name = user.trim()\n}\n```",
    "```swift\nclass Loader {\n    var done: (() -> Void)?\n    func start() {\n        fetch { "
    "result in self.done?() }\n        done = { self.stop() }\n    }\n}\n```",
    "```haskell\nmean :: [Double] -> Double\nmean xs = sum xs / fromIntegral (length xs)\n-- slow "
    "and hungry on ten million numbers\n```",
    "```lua\nlocal t = {1, 2, nil, 4}\nfor i = 1, #t do\n  print(t[i] * 2)\nend\n```",
    "```typescript\nfunction pick<T>(o: T, keys: string[]) {\n  const out: any = {};\n  for (const "
    "k of keys) out[k] = (o as any)[k];\n  return out as T;\n}\n```",
    "```yaml\nsteps:\n  - run: npm install\n  - run: npm test || true\n  - run: ./deploy.sh\n    "
    "env:\n      TOKEN: abc123\n```",
    "```dockerfile\nFROM ubuntu:latest\nCOPY . /app\nRUN apt-get update\nRUN apt-get install -y "
    "python3\nCMD python3 /app/main.py\n```",
    "```r\nresult <- c()\nfor (i in 1:length(x)) {\n  if (x[i] > 0) result <- c(result, "
    "log(x[i]))\n}\n```",
};

static const char *const review_ask[] = {
    "Review this change.",
    "Something is wrong here; what is it?",
    "A linter passes this. Should I?",
    "Find the bug and fix it.",
    "What could break in production?",
    "This came from a colleague. Give feedback that is kind and precise.",
    "Why does this misbehave?",
    "Rewrite it so that it is correct.",
    "How would you test this?",
    "Which inputs make it fail?",
};

static const char *const review_context[] = {
    "It runs once a minute in a cron job.",
    "It is called for every request.",
    "The list can be empty.",
    "Input comes from users.",
    "It was copied from an old project.",
    "We target both 32-bit and 64-bit machines.",
    "There is no test for it yet.",
    "It worked until last week.",
    "Please answer with a corrected version first.",
    "Severity first, details after.",
    "Mention style only if it hides a bug.",
    "Say which line you would change first.",
};

static const char *const prompt[] = {
    "Implement @{structure} in @{lang}. @{constraint}",
    "Implement @{structure} in @{lang}, then compare it with @{structure#2}. @{constraint}",
    "I need @{structure} in @{lang} that stores @{adjective} @{noun}s. @{constraint} "
    "@{constraint#2}",
    "Write a @{lang} program that @{task}. @{constraint}",
    "Write a @{lang} program that @{task} and another one that @{task#2}; let them share code "
    "where it helps.",
    "@{review_ask}\n\n@{snippet}\n\n@{review_context}",
    "@{review_ask} @{review_context}\n\n@{snippet}",
    "Two snippets from one pull request. "
    "@{review_ask}\n\n@{snippet}\n\n@{snippet#2}\n\n@{review_context}",
    "Explain @{concept} @{audience}. @{length}",
    "I keep mixing up @{concept} and @{concept#2}. @{length}",
    "Port this idea from @{lang} to @{lang#2}: a program that @{task}. Point out where @{aspect} "
    "differs.",
    "Our service @{symptom} when @{situation}. The stack is @{stack}. How do I find the cause? "
    "@{length}",
    "It @{symptom}, but only when @{situation}. We run @{stack}. List hypotheses, and the cheapest "
    "experiment for each.",
    "Design @{system_kind} for @{company}. It must @{requirement} and @{requirement#2}. @{length}",
    "Critique this plan: @{system_kind} written in @{lang} on @{stack}, meant to @{requirement}. "
    "@{length}",
    "Write tests in @{lang} for @{unit}. Cover @{edge}, @{edge#2} and @{edge#3}. @{constraint}",
    "Given the tables @{schema}, write a query that @{query}. Then explain how an index would "
    "change its plan.",
    "With @{schema}: a query that @{query}, and one that @{query#2}. Standard SQL if you can.",
    "A shell one-liner that @{shell}. Explain every part, then say how it fails with @{edge}.",
    "In @{lang}, what is the idiomatic way to deal with @{aspect} in a function called "
    "`@{verb}_@{noun}`? Show a bad and a good version. @{length}",
    "Name the functions of a small @{lang} library around @{structure} for @{adjective} @{noun}s, "
    "with signatures and one sentence each. @{constraint}",
    "How does @{lang} differ from @{lang#2} when it comes to @{aspect}? @{length}",
    "Write the README section for a @{lang} tool that @{task}: what it does, how to install it, "
    "three examples.",
    "Turn this sentence into a type and functions in @{lang}: every @{noun} has many @{adjective} "
    "@{noun#2}s, and one can @{verb} a @{noun#2} only while the @{noun} is @{adjective#2}. "
    "@{constraint}",
    "Estimate memory and time of @{structure} holding @{n:2:900} million keys of @{n:4:64} bytes "
    "each in @{lang}. @{length}",
    "A benchmark in @{lang} says that @{structure} beats @{structure#2} by a factor of @{n:2:12}. "
    "What could be wrong with it?",
};

const struct fg_phrase_list fg_words_code[] = {
    FG_PHRASE_LIST(prompt),     FG_PHRASE_LIST(lang),           FG_PHRASE_LIST(structure),
    FG_PHRASE_LIST(task),       FG_PHRASE_LIST(constraint),     FG_PHRASE_LIST(concept),
    FG_PHRASE_LIST(aspect),     FG_PHRASE_LIST(symptom),        FG_PHRASE_LIST(situation),
    FG_PHRASE_LIST(stack),      FG_PHRASE_LIST(system_kind),    FG_PHRASE_LIST(requirement),
    FG_PHRASE_LIST(edge),       FG_PHRASE_LIST(unit),           FG_PHRASE_LIST(schema),
    FG_PHRASE_LIST(query),      FG_PHRASE_LIST(shell),          FG_PHRASE_LIST(snippet),
    FG_PHRASE_LIST(review_ask), FG_PHRASE_LIST(review_context), {0},
};
