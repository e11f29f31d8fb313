// Command workload is what runs in the pods of real nodes. It waits for SIGTERM and, as long as it runs, does to its
// node what HTTP requests ask for: take memory, disk space, inodes or process ids, stop being ready, call another pod.
// Without arguments it only waits, which makes it the sandbox ("pause") program too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "", "address to serve HTTP on, for example :8080; none if empty")
	memory := flag.Int("memory-mib", 0, "memory to take at start, in MiB")
	rate := flag.Int("rate-mib", 0, "how fast to take it, in MiB a second; 0 is at once")
	unready := flag.Bool("unready", false, "start as not ready")
	delay := flag.Duration("term-delay", 0, "how long to go on after SIGTERM")
	flag.Parse()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	// As process 1 of a pod with a shared process namespace it would have to collect orphans; ignoring SIGCHLD lets the
	// kernel do that.
	signal.Ignore(syscall.SIGCHLD)

	load := newLoad(!*unready)
	failed := make(chan error, 1)
	go func() { failed <- load.memory.set(*memory, *rate) }()
	if *listen != "" {
		go func() { failed <- serve(*listen, load) }()
	}
	for {
		select {
		case err := <-failed:
			if err != nil {
				return err
			}
		case got := <-stop:
			return terminate(got, *delay)
		}
	}
}

func serve(address string, load *load) error {
	server := &http.Server{Addr: address, Handler: load.handler(), ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// terminate leaves word in the termination log, so that the pod's status distinguishes a graceful end from a kill.
func terminate(got os.Signal, delay time.Duration) error {
	message := fmt.Sprintf("ended by %s", got)
	fmt.Println(message)
	<-time.After(delay)
	if err := os.WriteFile("/dev/termination-log", []byte(message), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("writing the termination log: %w", err)
	}
	return nil
}
