-- Sends the requests of a file, one a line: METHOD <tab> path <tab> body.
-- Arguments: FILE cycle|random|once [close]. "once" repeats the last line when the file is used up.
local requests, at, order = {}, 0, "cycle"
sent = 0

function setup(thread) the_thread = thread end

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  if args[3] == "close" then headers["Connection"] = "close" end
  order = args[2]
  for line in io.lines(args[1]) do
    local method, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
    if body == "" then body = nil end
    requests[#requests + 1] = wrk.format(method, path, headers, body)
  end
  math.randomseed(1)
end

local verified = false

function request()
  if not verified then -- wrk asks once to count pipelined requests, and sends nothing
    verified = true
    return requests[1]
  end
  sent = sent + 1
  if order == "random" then return requests[math.random(#requests)] end
  if order == "once" then
    at = at + 1
    return requests[at] or requests[#requests]
  end
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, seen)
  local errors = summary.errors
  print(string.format(
    'result {"requests": %d, "microseconds": %d, "sent": %d, "p50": %.3f, "p90": %.3f, "p99": %.3f, "refused": %d, "broken": %d}',
    summary.requests, summary.duration, the_thread:get("sent"),
    latency:percentile(50) / 1000, latency:percentile(90) / 1000, latency:percentile(99) / 1000,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
