package brain

// The help texts. They say how Boxmaker is built to work, and where a part may
// be missing they say how that shows.

const helpText = `I understand plain requests and make real tool calls for them:

- **Time**: ` + "`what time is it?`" + `
- **Files**: ` + "`list my notes`, `read notes/today.md`, `search my notes for rent`, `write \"milk\" to notes/shopping.md`, `change milk to bread in notes/shopping.md`, `overwrite notes/shopping.md with eggs`" + `
- **Programs and pages**: ` + "`run uname -a`, `shell: ls | wc -l`, `fetch https://example.com`" + `
- **Memory**: ` + "`remember that the rent is due on the first`, `recall rent`" + `
- **Tools**: ` + "`what tools do you have?`, `find a tool for pictures`" + `

Every call is decided on by your grants. What no grant allows is denied, and I say so.

I answer questions about Boxmaker: *grants, approvals, audit, sessions, slots, cache, epochs, memory, taint, network, roles, files, commands, the practice model, using a real model*.

For demonstrations: ` + "`say 50 words`, `count to 20`, `think for 100 words`, `call clock 3 times`, `answer with …`, `repeat the same call for ever`" + ` (you will see it stopped).`

const practiceText = `I am the **practice model**: rules, not a language model. I stand in for a real ` + "`llama-server`" + ` so that you can try Boxmaker without a GPU, and so that its tests have a server.

- My tool calls, slots, cache figures and token counts are real. What I "understand" is a table of patterns.
- The same conversation always gets the same answer.
- ` + "`bxctl status`" + ` says when I am in use.

To talk to a language model instead, ask ` + "`how do I use a real model?`."

const realServerText = `To use a language model:

1. With a running ` + "`llama-server`: `bxctl init --upstream http://HOST:PORT`, then `bxctl down` and `bxctl up`." + `
2. With a model file: ` + "`bxctl up --model FILE.gguf`" + ` starts ` + "`llama-server`" + ` with the right flags (pinned slots, f16 or q8_0 KV, no speculative decoding).

At the start ` + "`loopd`" + ` tests the server: a tool call, the prefix cache, the context size, the chat template, the cap on thinking. If a check fails it says which one and what to do (` + "`docs/runbook.md`" + `). The server may be on another machine; only ` + "`inferproxy`" + ` can reach it.`

const grantsText = `A **grant** is a small TOML file that you write in the ` + "`grants`" + ` folder. It names a tool, and what the tool may touch. For example:

` + "```toml" + `
tool = "read_file"
mode = "auto"          # auto | ask | deny
reason = "my notes"
[paths]
read = ["/home/me/notes"]
` + "```" + `

- No matching grant: **denied**. A matching ` + "`deny`" + ` wins over everything.
- ` + "`ask`" + ` suspends the call until you answer. ` + "`auto`" + ` lets it through.
- A grant can have limits, an expiry, hosts, argument rules.
- ` + "`brokerd`" + ` reads the files afresh for each call: a removed file takes effect at once. I can neither see nor change them.`

const approvalsText = `A grant with ` + "`mode = \"ask\"`" + ` makes the call wait for you. You see what is to be run, with which arguments, under which grant, and the difference for a write or an edit. Answer in the chat (Ctrl-X, then a capital A or D; or ` + "`/approve CODE`" + `) or with ` + "`bxctl approve CODE`" + `. An approval covers exactly that one call, once. If you do not answer in time (15 minutes unless set otherwise) it counts as a no. A no is final: I will not try the same call again.`

const auditText = `Every decision on a tool call is written to the **audit log** before anything runs, denials included, and so is how the call ended. The records are chained by their hashes: one that is changed, missing or cut off no longer fits. ` + "`bxctl audit verify`" + ` checks that. The session logs hold everything that was said and sent, as plain files.`

const brokerText = `` + "`brokerd`" + ` is the authority: it checks each tool call against your grants, asks you where a grant says so, records the decision, and runs the call in a fresh container that holds only what this call was granted.

If ` + "`brokerd`" + ` is not running, every call comes back as ` + "`no-broker`" + ` and nothing happens outside this conversation. A refusal says its reason as a short code (` + "`no-grant`, `denied-by-owner`, `approval-expired`" + `, …), and I do not repeat a refused call.`

const slotsText = `A **slot** is one conversation's place in the server's memory. Boxmaker pins sessions to slots: ` + "`main`" + ` for live conversations, ` + "`background`" + ` for everything else, so that a scheduled job does not push your conversation out of the cache. Each slot serves one request at a time; others wait in order. Another program on the same server may still evict a slot: then one request is read again from the start, which is noted and is no error.`

const cacheText = `On your own hardware, reading the prompt is the slow part. So Boxmaker **never re-reads**: every request is the one before it with something added at the end, byte for byte, and the server reuses what it has already processed. Nothing before the newest message ever changes: no clock in the system prompt, no tools added midway, nothing trimmed.

The progress bar shows how much was cached. My own figures are true too: I compare what I am sent, token by token. A **cold cache** (after a restart, or when another program took the slot) costs one full reading and is noted with its cost.`

const epochsText = `A session is cut into **epochs**. Within one, requests only grow. When the context fills up, or the tools or the system prompt change, a new epoch begins: the fixed beginning plus a summary. The old log stays as it is. If the context fills up in the middle of a turn, the turn ends with a clear message instead of silently dropping the beginning. ` + "`bxctl status`" + ` shows the context size of the server.`

const sessionsText = `A **session** is one conversation, kept in ` + "`sessions/<id>/<epoch>.jsonl`" + `: one record a line, written to disk before anything acts on it. ` + "`bxctl sessions`" + ` lists them, ` + "`bxctl sessions show ID`" + ` prints one, ` + "`bxctl chat --session ID` or `bxctl ask --session ID`" + ` goes on with one. Nothing that was acknowledged is lost, whatever is killed when.`

const memoryText = `Memory is plain files: ` + "`memory/core.md`" + ` (short, written by you, part of every conversation), dated notes that are only added to, and topic files. Say ` + "`remember that …` or `recall …`" + ` and I will ask the tools for it. Notes from conversations that had read untrusted text are marked as such. If the memory program is not running, the calls are refused and say so.`

const taintText = `Text has a class: **public**, **private** or **secret**. A session takes on the highest class it has seen and never loses it, and it remembers whether it has seen **untrusted** text, such as a web page. A grant can say up to which class it applies, and ask instead of allow once untrusted text has been seen. So a page that tries to talk the model into something can make it ask, and no more.`

const networkText = `The part that talks to the model has no network, no credentials and no rights. ` + "`inferproxy`" + ` knows one address, the model server's. Tools get a network only if the grant for that very call names the hosts, and then only through ` + "`egressd`" + `. There is no telemetry and no update check. ` + "`docs/egress.md`" + ` lists every outbound connection.`

const rolesText = `One program for each job, each with as little as possible:

- ` + "`loopd`" + `: the agent loop. Holds the conversations, has no network and no rights.
- ` + "`inferproxy`" + `: passes bytes to the model server, and nothing else.
- ` + "`brokerd`" + `: decides on tool calls by your grants, and runs them.
- ` + "`egressd`" + `: the only door out for tools. ` + "`memoryd`" + `: notes. ` + "`gatewayd`" + `: the Mattermost bot.
- ` + "`bxctl`" + `: your command line. ` + "`practice`" + `: me.

They talk over Unix sockets: the socket a program holds is the right it has. ` + "`bxctl status`" + ` shows which of them run.`

const toolsText = `A few tools are declared from the start, among them ` + "`clock`, `find_tool` and `call_tool`" + `. All others are found with ` + "`find_tool`" + `, which shows only what you have granted, and called through ` + "`call_tool`" + `. So the list of tools never changes within a conversation, and the cache stays warm. Each call runs in a fresh container with only what that call was granted. Ask ` + "`what tools do you have?`" + ` to see them.`

const commandsText = `- ` + "`bxctl chat`" + `: talk. ` + "`/stop`" + ` there ends an answer.
- ` + "`bxctl ask TEXT`" + `: one question, the answer alone on standard output (` + "`--json`" + ` for events, ` + "`--session ID`" + ` to go on).
- ` + "`bxctl up`" + ` (` + "`--detach`" + `), ` + "`bxctl down`, `bxctl status`" + `.
- ` + "`bxctl sessions`" + `: list, show, export.
- ` + "`bxctl init`" + `: write the configuration (` + "`--practice`, `--upstream URL`, `--model FILE.gguf`" + `).

` + "`bxctl --help`" + ` has all of them.`

const filesText = `Everything is plain files: ` + "`config/*.toml`" + ` (settings, one file for each program), ` + "`grants/*.toml`" + ` (what is allowed), ` + "`sessions/`" + ` (conversations), ` + "`run/`" + ` (sockets). They follow the usual folders of your system; with ` + "`BOXMAKER_HOME`" + ` set, all of them are in that one folder. To back up, copy it. An index can always be made anew.`

const thinkingText = `A model thinks before it answers; the chat folds that away. Boxmaker caps the thinking of each answer (4,096 tokens unless set otherwise) so that a model cannot get lost, and says so when the cap was hit. What I "think" is one sentence about the rule that fits. Try ` + "`think for 200 words`" + `.`

const channelText = `Besides the command line there is one channel, a Mattermost bot (` + "`gatewayd`" + `): outbound connections only, and only users on your list get an answer. If it is not set up, nothing of it runs.`

const scheduleText = `Scheduled jobs and the heartbeat run in sessions of their own on the background slot, under the grants of that moment. A missed run is made up once, in order. I cannot set one up by rule: they are part of ` + "`loopd`'s" + ` configuration.`

const boxmakerText = `**Boxmaker** is a personal agent that runs on your own machine, on a local model. Three promises:

1. It cannot do what you did not grant.
2. It never re-reads: each request only adds to the one before.
3. You can read and prove everything: plain files, and a log of every decision.

The name is from *Count Zero*: the patient maker of small boxes from fragments. Ask about *grants*, *roles*, *cache* or *sessions* for more.`
