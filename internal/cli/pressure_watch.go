package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/observe"
)

// pressurePause is how long -w waits between looks. The kubelet measures every 10 to 15 seconds, so more would show
// nothing new; half of that shows it soon.
const pressurePause = 5 * time.Second

// follow looks again and again until it is interrupted, which is how it is meant to end.
func (o *pressureOptions) follow(parent context.Context) error {
	ctx, stop := interruptible(parent, func() {}, func() { os.Exit(exitInterrupted) })
	defer stop()
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	limits := askThresholds(ctx, conn, o.node)
	node := observe.FollowNodeUse(ctx, conn.client, o.node)
	view := newPressureView(o)
	ticker := time.NewTicker(pressurePause)
	defer ticker.Stop()
	for looks := 0; ; looks++ {
		seen, err := readNode(ctx, conn, o.node, limits, node.Look)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && looks == 0:
			return err // what is wrong from the start is not waited for
		case err != nil:
			view.trouble(conn.clock.Now().UTC(), err)
		default:
			page, err := o.page(seen)
			if err != nil {
				return err
			}
			if err := view.show(page); err != nil {
				return fmt.Errorf("writing the page: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// pressureView shows one look after the other: redrawn on a terminal, a line for each look elsewhere.
type pressureView struct {
	options *pressureOptions
	printer *printer
	screen  *show.Screen
	last    *show.Pressure
	said    string
}

func newPressureView(o *pressureOptions) *pressureView {
	v := newVoice(o.IOStreams, o.output, show.Commands{})
	return &pressureView{options: o, printer: v, screen: show.NewScreen(o.Out)}
}

// show prints a look. The error is that the output is not read any more.
func (v *pressureView) show(page show.Pressure) error {
	v.last = &page
	switch {
	case v.printer.json != nil:
		line, err := page.Line()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(v.options.Out, "%s\n", line)
		return err
	case v.printer.term.live:
		v.draw("")
		return nil
	}
	answer := page.Answer()
	if answer == v.said {
		return nil
	}
	v.said = answer
	_, err := fmt.Fprintf(v.options.Out, "%s  %s\n", page.Record.At.UTC().Format(time.RFC3339), answer)
	return err
}

// trouble reports a look that failed; the last one stays. Elsewhere than on a terminal, the next one that succeeds gets a
// line even if nothing has changed.
func (v *pressureView) trouble(at time.Time, err error) {
	v.said = ""
	if v.printer.term.live && v.last != nil {
		v.draw(fmt.Sprintf("%s UTC  %v; asking again", at.Format(time.TimeOnly), err))
		return
	}
	fmt.Fprintf(v.options.ErrOut, "%s  %v; asking again\n", at.Format(time.RFC3339), err)
}

func (v *pressureView) draw(banner string) {
	width, height := v.printer.term.size()
	v.screen.Draw(v.last.Screenful(width, height, banner, v.printer.paint()), width)
}
