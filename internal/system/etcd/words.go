package etcd

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxWords is how many bytes of an error are shown.
const maxWords = 300

// words says for people what went wrong, without the layers of RPC.
func words(err error) string {
	s, ok := status.FromError(err)
	text := err.Error()
	if ok {
		text = s.Message()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), ok && s.Code() == codes.DeadlineExceeded:
		return "no answer in time"
	case errors.Is(err, context.Canceled), ok && s.Code() == codes.Canceled:
		return "the question was cut short"
	}
	if _, cause, found := cutLast(text, "desc = "); found {
		text = strings.Trim(cause, `"`)
	}
	// What follows is the page of something that is no etcd.
	text, _, _ = strings.Cut(text, "\ndata: ")
	text = strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
	text = strings.TrimPrefix(text, "transport: ")
	text = strings.TrimPrefix(text, "Error while dialing: ")
	return strings.TrimPrefix(text, "etcdserver: ")
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
