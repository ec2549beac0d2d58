# What a C program of src said against what Linux' irdma answers and a list of differences, each with its reason:
#
#   awk -f compare.awk EXPECTED-LINUX SAID EXPECTED
#
# Says what is neither, and how many of each there are; exit status 1 if there is any. With -v list=FILE the list
# as it should be is written there. See `answers`.
function name_of(text) { return substr(text, 1, index(text, ": ") - 1) }
function fault(text) { print "FAILED " text; faults++ }
FILENAME == ARGV[1] { linux[name_of($0)] = $0; theirs[++known] = name_of($0); next }
FILENAME == ARGV[2] { said[name_of($0)] = $0; order[++count] = name_of($0); next }
/^$/ { reason = ""; if (list) print >list; next }
/^#/ { reason = $0; if (list) print >list; next }
{
    name = name_of($0)
    if (name in want) fault("the list has it twice: " $0)
    want[name] = $0
    if (reason == "") fault("the list has no reason: " $0)
    if (!(name in said)) fault(name ": the list has it, and it is not said")
    else if (said[name] == linux[name]) fault(name ": as Linux says it: take it off the list")
    else if (list) print said[name] >list
}
END {
    for (n = 1; n <= count; n++) {
        name = order[n]
        if (said[name] == linux[name]) { same++; continue }
        # This machine has no such memory.
        if (said[name] ~ /: \(not here\)$/) { absent++; continue }
        if (name in want) {
            if (want[name] == said[name]) other++
            else fault(said[name] " (the list: " substr(want[name], length(name) + 3) ")")
            continue
        }
        fault(said[name] (name in linux ? " (Linux: " substr(linux[name], length(name) + 3) ")" : " (Linux says nothing)"))
        if (list && !headed++) print "" >list
        if (list) print said[name] >list
    }
    for (n = 1; n <= known; n++) if (!(theirs[n] in said)) fault(theirs[n] ": it is not said")
    print same + 0 " pass, " other + 0 " otherwise with a reason, " (absent ? absent " not on this machine, " : "") faults + 0 " fail"
    exit faults > 0
}
