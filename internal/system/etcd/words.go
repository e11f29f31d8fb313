package etcd

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"usher.sh/usher/internal/text"
)

// maxWords is how many bytes of an error are shown.
const maxWords = 300

// words says for people what went wrong, without the layers of RPC.
func words(err error) string {
	s, ok := status.FromError(err)
	said := err.Error()
	if ok {
		said = s.Message()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), ok && s.Code() == codes.DeadlineExceeded:
		return "no answer in time"
	case errors.Is(err, context.Canceled), ok && s.Code() == codes.Canceled:
		return "the question was cut short"
	}
	if _, cause, found := text.CutLast(said, "desc = "); found {
		said = strings.Trim(cause, `"`)
	}
	// What follows is the page of something that is no etcd.
	said, _, _ = strings.Cut(said, "\ndata: ")
	said = strings.ToValidUTF8(said[:min(len(said), maxWords)], "")
	said = strings.TrimPrefix(said, "transport: ")
	said = strings.TrimPrefix(said, "Error while dialing: ")
	return strings.TrimPrefix(said, "etcdserver: ")
}
