package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"usher.sh/usher/lab/throwaway"
)

// usage is what the replicas have used: of memory the one that has most, of everything else together.
type usage struct {
	resident, peak, live float64 // bytes
	goroutines           float64
	cpu                  float64 // seconds
	logLines, logBytes   int
}

func usageOf(ctx context.Context, m *throwaway.Managers) (usage, error) {
	var u usage
	for _, r := range m.Replicas {
		if err := u.add(ctx, r); err != nil {
			return u, fmt.Errorf("looking at %s: %w", r.Name, cmp.Or(m.Ended(), err))
		}
	}
	return u, nil
}

func (u *usage) add(ctx context.Context, r *throwaway.Replica) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Process.PID))
	if err != nil {
		return err
	}
	u.resident = max(u.resident, kilobytes(status, "VmRSS:"))
	u.peak = max(u.peak, kilobytes(status, "VmHWM:"))
	metrics, err := readMetrics(ctx, r)
	if err != nil {
		return err
	}
	u.live = max(u.live, metrics["go_gc_heap_live_bytes"])
	u.goroutines += metrics["go_goroutines"]
	u.cpu += metrics["process_cpu_seconds_total"]
	log, err := os.ReadFile(r.Process.Log)
	if err != nil {
		return err
	}
	u.logLines += bytes.Count(log, []byte("\n"))
	u.logBytes += len(log)
	return nil
}

// kilobytes reads a line of /proc/PID/status, in bytes.
func kilobytes(status []byte, name string) float64 {
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == name {
			n, _ := strconv.ParseFloat(fields[1], 64)
			return n * 1024
		}
	}
	return 0
}

// readMetrics reads those without labels.
func readMetrics(ctx context.Context, r *throwaway.Replica) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	metrics := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if name, text, ok := strings.Cut(lines.Text(), " "); ok {
			if value, err := strconv.ParseFloat(text, 64); err == nil {
				metrics[name] = value
			}
		}
	}
	return metrics, lines.Err()
}
