package nodes

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

//go:embed stages/*.yaml
var stageFiles embed.FS

// Profile names how long pods take.
type Profile string

const (
	// General is as kwok's general stages: 1 to 5 s until a pod is created, 1 to 5 s more until it is ready, and from
	// 1 s up to its grace period until it has ended.
	General Profile = "general"
	// Fast takes 10 to 50 ms for each of those, for tests.
	Fast Profile = "fast"
)

// span is the range that a stage's time is drawn from.
type span struct{ least, most time.Duration }

// pace gives the spans of a profile. A pod's end is limited by its grace period as well.
type pace struct{ step, end, detach span }

const forever = 24 * time.Hour

var paces = map[Profile]pace{
	General: {
		step:   span{time.Second, 5 * time.Second},
		end:    span{time.Second, forever},
		detach: span{time.Second, 3 * time.Second},
	},
	Fast: {
		step:   span{10 * time.Millisecond, 50 * time.Millisecond},
		end:    span{10 * time.Millisecond, 50 * time.Millisecond},
		detach: span{10 * time.Millisecond, 50 * time.Millisecond},
	},
}

// Stages returns kwok's configuration for a profile and a seed.
//
// A stage's time is drawn from seed, stage, namespace and name of the object, so it is the same in every run for
// objects that have the same name in every run: bare pods, those of a StatefulSet, volume attachments. The
// apiserver gives the pods of ReplicaSets and DaemonSets a new name in every run: their times come from the same
// range and differ from run to run. An annotation <stage>.stage.kwok.x-k8s.io/delay (such as "3s") on the object
// overrules the draw.
func Stages(p Profile, seed uint64) ([]byte, error) {
	pc, ok := paces[p]
	if !ok {
		return nil, fmt.Errorf("reading profile %q: there is %q and %q", p, General, Fast)
	}
	t, err := template.New("stages").Delims("[[", "]]").Funcs(template.FuncMap{
		"step":   func(stage string) string { return draw(seed, stage, pc.step) },
		"ending": func(stage string) string { return drawEnd(seed, stage, pc.end) },
		"detach": func(stage string) string { return draw(seed, stage, pc.detach) },
	}).ParseFS(stageFiles, "stages/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading stages: %w", err)
	}
	var out bytes.Buffer
	for _, file := range t.Templates() {
		out.WriteString("---\n")
		if err := file.Execute(&out, nil); err != nil {
			return nil, fmt.Errorf("writing stages: %w", err)
		}
	}
	return out.Bytes(), nil
}

// draw returns a jq expression for a time in the span.
func draw(seed uint64, stage string, s span) string {
	body := fmt.Sprintf(`%s | %d + . * %d`, share(seed, stage), s.least.Milliseconds(), (s.most - s.least).Milliseconds())
	return orAnnotated(stage, body)
}

// drawEnd is draw for the end of a pod, which is not later than its grace period ends.
func drawEnd(seed uint64, stage string, s span) string {
	body := fmt.Sprintf(`(((.metadata.deletionTimestamp | fromdateiso8601) - now) * 1000) as $left`+
		` | ([$left, %d] | min) as $most | ([$most, %d] | min) as $least`+
		` | %s | $least + . * ($most - $least)`, s.most.Milliseconds(), s.least.Milliseconds(), share(seed, stage))
	return orAnnotated(stage, body)
}

// share returns a jq expression for a number from 0 up to 1, the same for the same seed, stage and object. The last
// multiplication spreads names that differ in their last letter only, as those of a StatefulSet do.
func share(seed uint64, stage string) string {
	const prime, spread = 1000003, 618034
	return fmt.Sprintf(`("%d/%s/\(.metadata.namespace)/\(.metadata.name)" | explode`+
		` | reduce .[] as $c (7; (. * 131 + $c) %% %d) | (. * %d) %% %d / %d)`, seed, stage, prime, spread, prime, prime)
}

func orAnnotated(stage, body string) string {
	annotation := fmt.Sprintf(`.metadata.annotations["%s.stage.kwok.x-k8s.io/delay"]`, stage)
	return strings.Join([]string{annotation, "//", "(" + body, `| [., 0] | max | floor | "\(.)ms")`}, " ")
}
