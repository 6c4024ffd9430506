# tmux of AArch64 with a pane for a shell of each instruction set.
export LC_ALL=C.UTF-8 TERM=screen SHELL=/bin/sh
tmux='/programs/arm64/tmux -f /dev/null'
$tmux new-session -d -s shown -x 80 -y 32 '/programs/amd64/bash --norc'
$tmux split-window -t shown '/programs/riscv64/ksh93'
$tmux split-window -t shown '/programs/arm64/bash --norc'
$tmux select-layout -t shown even-vertical
$tmux send-keys -t shown:0.0 'echo "pane $((40+2)) ${MACHTYPE%%-*}"' Enter
$tmux send-keys -t shown:0.1 'typeset -A a=([x]=1); print "pane ${.sh.version%%/*} ${#a[@]}"' Enter
$tmux send-keys -t shown:0.2 'echo "pane $((40+2)) ${MACHTYPE%%-*} $TMUX_PANE"' Enter
shown() { for pane in 0 1 2; do $tmux capture-pane -p -t shown:0.$pane | grep '^pane'; done; }
for _ in $(seq 50); do [ "$(shown | wc -l)" = 3 ] && break; sleep 0.2; done
shown
$tmux list-panes -t shown -F '#{pane_width}x#{pane_height}'
$tmux resize-pane -t shown:0.0 -y 5
$tmux send-keys -t shown:0.0 C-l 'until [ "$(stty size)" = "5 80" ]; do sleep 0.1; done; echo "pane $(stty size)"' Enter
for _ in $(seq 50); do $tmux capture-pane -p -t shown:0.0 | grep '^pane [0-9]* 80' && break; sleep 0.2; done
$tmux kill-server
sleep 0.2
/programs/riscv64/ksh93 -c 'function f { typeset -n r=$1; r=(x y z); }; f v; print ${v[1]} $(( sqrt(2) > 1.4 )); (exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null || print refused'
