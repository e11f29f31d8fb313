package agent

import (
	"log/slog"

	"usher.sh/usher/internal/nodepressure"
)

// waits remember what was waited for at the last look, so that a wait of a thousand looks is logged once.
type waits struct {
	last map[waitKey]bool
}

type waitKey struct {
	reason    nodepressure.ReliefReason
	threshold string
}

func (w *waits) report(log *slog.Logger, now []nodepressure.Action) {
	seen := map[waitKey]bool{}
	for i := range now {
		key := waitKey{reason: now[i].Reason}
		if t := now[i].Threshold; t != nil {
			key.threshold = string(t.Signal) + " " + t.Kind()
		}
		if !w.last[key] && !seen[key] {
			log.Info(now[i].Message, "action", string(nodepressure.Wait), "reason", string(now[i].Reason))
		}
		seen[key] = true
	}
	w.last = seen
}

// spoken remembers errors, so that one that stays is logged once.
type spoken struct {
	said map[string]bool
}

// mostSpoken bounds what is remembered of errors whose words change.
const mostSpoken = 100

func (s *spoken) report(log *slog.Logger, errs []error) {
	for _, err := range errs {
		if err == nil || s.said[err.Error()] {
			continue
		}
		if s.said == nil || len(s.said) >= mostSpoken {
			s.said = map[string]bool{}
		}
		s.said[err.Error()] = true
		log.Warn("something could not be read, and nothing is done on its account", "error", err.Error())
	}
}
