package notices

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"usher.sh/usher/internal/notice/metadata"
)

const (
	// gceHang is how long the server is asked to wait for a change, gceSlack how much longer its answer may take.
	gceHang  = 60 * time.Second
	gceSlack = 10 * time.Second
	// gcePatience is how long an answer is waited for that is to come at once.
	gcePatience = 5 * time.Second
	// gcePause is between two questions: a server that does not wait although it was asked to is asked no faster.
	gcePause = time.Second
)

const gceData = "/computeMetadata/v1/instance/"

// gce asks the metadata server of Google Cloud, which answers when there is news.
type gce struct{ source }

func (g *gce) questions() []question {
	return []question{
		{name: "gce maintenance-event", ask: g.of("maintenance-event", metadata.GCEMaintenance), pause: gcePause},
		{name: "gce preempted", ask: g.of("preempted", metadata.GCEPreempted), pause: gcePause},
	}
}

// of asks for a value at once, and from then on for another than the last one. What changed while the server was away is answered at once.
func (g *gce) of(name string, as reading) func(context.Context) (metadata.Answer, error) {
	etag := ""
	return func(ctx context.Context) (metadata.Answer, error) {
		path, patience := gceData+name, gcePatience
		if etag != "" {
			path += "?" + url.Values{"wait_for_change": {"true"}, "last_etag": {etag}, "timeout_sec": {strconv.Itoa(int(gceHang.Seconds()))}}.Encode()
			patience = gceHang + gceSlack
		}
		a, err := g.client.call(ctx, patience, http.MethodGet, path, map[string]string{"Metadata-Flavor": "Google"}, nil)
		switch {
		case err != nil:
			return metadata.Answer{}, err
		case a.header.Get("Metadata-Flavor") != "Google":
			return metadata.Answer{}, fmt.Errorf("GET %s: what answered %d is not the metadata server: the header Metadata-Flavor is missing", path, a.status)
		case a.status != http.StatusOK:
			return metadata.Answer{}, a.unexpected(http.MethodGet, path)
		}
		answer, err := as(g.asked(), a.body)
		if err != nil {
			return metadata.Answer{}, fmt.Errorf("%s: %w", name, err)
		}
		etag = a.header.Get("ETag") // without one, it is asked again and again
		return answer, nil
	}
}
