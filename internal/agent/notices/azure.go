package notices

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/notice/metadata"
)

const (
	// azureFirst is how long the first answer may take, which turns the service on, and azurePatience the others.
	azureFirst    = 150 * time.Second
	azurePatience = 10 * time.Second
	// azurePause is how often Azure recommends to look.
	azurePause = time.Second
	// azureApproveAgain is how long an event that was approved may be said to be scheduled before it is approved once more.
	azureApproveAgain = 30 * time.Second
)

const (
	azureEvents  = "/metadata/scheduledevents?api-version=2020-07-01"
	azureMachine = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
)

// azure asks the scheduled events of Azure. One goroutine uses it.
type azure struct {
	source

	machine     string // the name by which events are of this one
	answered    bool
	incarnation int64
	approvable  []string
	approved    map[string]time.Time
}

func (z *azure) questions() []question {
	return []question{{name: "azure scheduledevents", ask: z.ask, pause: azurePause, after: z.approve}}
}

func (z *azure) ask(ctx context.Context) (metadata.Answer, error) {
	if err := z.findMachine(ctx); err != nil {
		return metadata.Answer{}, err
	}
	patience := azurePatience
	if !z.answered {
		patience = azureFirst
	}
	a, err := z.get(ctx, patience, azureEvents)
	if err != nil {
		return metadata.Answer{}, err
	}
	document, err := metadata.AzureEvents(z.asked(), z.machine, a.body)
	if err != nil {
		return metadata.Answer{}, fmt.Errorf("scheduledevents: %w", err)
	}
	z.answered, z.approvable = true, document.Approvable
	z.settle(document.Notices)
	if document.Incarnation < z.incarnation && document.Unread == "" {
		document.Unread = fmt.Sprintf("its document %d is older than %d, which was read before", document.Incarnation, z.incarnation)
		z.approvable = nil
	}
	z.incarnation = document.Incarnation // a service that counts anew is believed from its second answer on
	return document.Answer, nil
}

// findMachine asks once by which name events are of this machine.
func (z *azure) findMachine(ctx context.Context) error {
	if z.machine != "" {
		return nil
	}
	a, err := z.get(ctx, azurePatience, azureMachine)
	if err != nil {
		return err
	}
	if z.machine, err = metadata.AzureMachine(a.body); err != nil {
		return fmt.Errorf("compute/name: %w", err)
	}
	return nil
}

func (z *azure) get(ctx context.Context, patience time.Duration, path string) (answer, error) {
	a, err := z.client.call(ctx, patience, http.MethodGet, path, map[string]string{"Metadata": "true"}, nil)
	if err == nil && a.status != http.StatusOK {
		err = a.unexpected(http.MethodGet, path)
	}
	return a, err
}

// settle forgets approvals of events that are not named any more.
func (z *azure) settle(standing []notice.Notice) {
	kept := map[string]time.Time{}
	for i := range standing {
		if at, approved := z.approved[standing[i].Event]; approved {
			kept[standing[i].Event] = at
		}
	}
	z.approved = kept
}

// approve has events begin of which the node is drained: there is nothing left to wait for. One that also is of other machines would begin on
// these, and is left to its time.
func (z *azure) approve(ctx context.Context) {
	for _, id := range z.approvable {
		drained, _ := z.board.isDrained(notice.Azure, id)
		if at, before := z.approved[id]; !drained || before && time.Since(at) < azureApproveAgain {
			continue
		}
		z.approved[id] = time.Now() // also where it fails: it begins at its time anyway
		if err := z.start(ctx, id); err != nil {
			z.board.log.Warn("the event could not be approved, and begins at its time unless that succeeds later", "event", id, "error", err.Error())
			continue
		}
		z.board.log.Info("the node is drained: the event is approved, and begins now", "event", id)
	}
}

func (z *azure) start(ctx context.Context, id string) error {
	body, err := metadata.AzureApproval(id)
	if err != nil {
		return err
	}
	header := map[string]string{"Metadata": "true", "Content-Type": "application/json"}
	a, err := z.client.call(ctx, azurePatience, http.MethodPost, azureEvents, header, body)
	if err == nil && a.status != http.StatusOK {
		err = a.unexpected(http.MethodPost, azureEvents)
	}
	return err
}
