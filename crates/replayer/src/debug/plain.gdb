set breakpoint pending on
break __refrain_at_failure
commands
silent
up
echo refrain: this is the failure. 'up' leads to your own code.\n
end
break __refrain_at_end
commands
silent
echo refrain: all threads stand where the recording ended.\n
info threads
end
break __refrain_diverged
commands
silent
up
echo refrain: the replay diverged.\n
end
break __refrain_write_code
commands
silent
set language c
set $refrain_at = 0
while $refrain_at < $rdx
set *(unsigned char *)($rdi + $refrain_at) = *(unsigned char *)($rsi + $refrain_at)
set $refrain_at = $refrain_at + 1
end
set language auto
continue
end
set breakpoint pending auto
define refrain-where
  # The runtime's frames are Rust's.
  set language c
  set $refrain_thread = 0
  while $refrain_thread < THREADS
    printf "T%d  LWP %u  %lu events  state %u (1 runs, 2 ended, 3 at the end of its log, 4 waits)", $refrain_thread, *(unsigned *)(SLOT + OS_THREAD), *(unsigned long *)(SLOT + COUNT), *(unsigned *)(SLOT + STATE)
    if *(unsigned *)(SLOT + STATE) == 4
      printf "  for T%u to complete %lu", *(unsigned *)(SLOT + AWAITED), *(unsigned long *)(SLOT + UNTIL)
    end
    printf "\n"
    set $refrain_thread = $refrain_thread + 1
  end
  set language auto
end
document refrain-where
Where each thread of the replay is: events completed, and what it waits for.
end
echo refrain: type 'run' to start the replay, as often as you like; 'refrain-where' tells where its threads are.\n
