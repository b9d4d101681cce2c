/* What went wrong with a transfer: one sentence that names the URL. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fetch/http_inner.h"

static int explain_timeout(struct infp_http_transfer *transfer)
{
        const struct infp_http_result *result = &transfer->result;

        if (!result->sent_t_ns)
                return infp_fail(&transfer->err, -ETIMEDOUT, "%s: no connection within %" PRIu32 " ms", transfer->shown,
                                 transfer->timeout_ms);
        if (!result->first_byte_t_ns)
                return infp_fail(&transfer->err, -ETIMEDOUT, "%s has not answered within %" PRIu32 " ms",
                                 transfer->shown, transfer->timeout_ms);
        return infp_fail(&transfer->err, -ETIMEDOUT,
                         "%s sends too slowly: %" PRIu64 " bytes within %" PRIu32 " ms, and no end", transfer->shown,
                         result->n_wire_bytes, transfer->timeout_ms);
}

static int explain_connect(struct infp_http_transfer *transfer)
{
        long number = 0;

        infp_curl.easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number);
        switch (number) {
        case ECONNREFUSED:
                return infp_fail(&transfer->err, -ECONNREFUSED, "%s: connection refused, nothing listens there",
                                 transfer->shown);
        case ENOENT:
                return infp_fail(&transfer->err, -ENOENT, "%s: the socket does not exist", transfer->shown);
        case EACCES:
                return infp_fail(&transfer->err, -EACCES, "%s: this user may not use the socket", transfer->shown);
        case 0:
                return infp_fail(&transfer->err, -EHOSTUNREACH, "%s: no connection: %s", transfer->shown,
                                 transfer->message);
        default:
                return infp_fail_errno(&transfer->err, (int) -number, "%s: no connection", transfer->shown);
        }
}

/* Fewer bytes than announced: how many is what tells a proxy's limit from a server that died. */
static int explain_cut(struct infp_http_transfer *transfer)
{
        curl_off_t announced = -1, came = 0;

        infp_curl.easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
        infp_curl.easy_getinfo(transfer->easy, CURLINFO_SIZE_DOWNLOAD_T, &came);
        if (announced > came)
                return infp_fail(&transfer->err, -EBADMSG,
                                 "%s: the answer was cut short: %" PRId64 " of %" PRId64 " bytes are missing",
                                 transfer->shown, (int64_t) (announced - came), (int64_t) announced);
        return infp_fail(&transfer->err, -EBADMSG,
                         "%s: the answer was cut short after %" PRId64 " bytes: its end is missing", transfer->shown,
                         (int64_t) came);
}

static int explain_redirect(struct infp_http_transfer *transfer)
{
        const char *target = NULL;
        char shown[256];

        if (transfer->result.status < 300 || transfer->result.status > 399)
                return 0;
        infp_curl.easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &target);
        if (!target)
                return 0;
        infp_http_url_show(target, shown, sizeof(shown));
        return infp_fail(&transfer->err, -EREMCHG,
                         "%s redirects (%ld) to %s, which is not followed: give that URL instead if you mean it",
                         transfer->shown, transfer->result.status, shown);
}

static int explain_certificate(struct infp_http_transfer *transfer)
{
        return infp_fail(
                &transfer->err, -EKEYREJECTED,
                "%s: the server's certificate is not trusted (%s): add its issuer to the system's certificates",
                transfer->shown, transfer->message);
}

static int explain_headers(struct infp_http_transfer *transfer)
{
        return infp_fail(&transfer->err, -EMSGSIZE, "%s: the headers of the answer are too long", transfer->shown);
}

static int explain_other(struct infp_http_transfer *transfer, CURLcode code)
{
        const char *why = transfer->message[0] ? transfer->message : infp_curl.easy_strerror(code);

        switch (code) {
#if LIBCURL_VERSION_NUM >= 0x080600
        case CURLE_TOO_LARGE:
                return explain_headers(transfer);
#endif
        case CURLE_OUT_OF_MEMORY:
                /* Before 8.6 also of one header that is longer than libcurl takes. */
                if (transfer->result.sent_t_ns && !transfer->result.first_byte_t_ns)
                        return explain_headers(transfer);
                return infp_fail_errno(&transfer->err, -ENOMEM, "%s", transfer->shown);
        case CURLE_COULDNT_RESOLVE_HOST:
                return infp_fail(&transfer->err, -EHOSTUNREACH, "%s: unknown host name", transfer->shown);
        case CURLE_GOT_NOTHING:
                return infp_fail(&transfer->err, -EBADMSG, "%s: the server closed the connection without an answer",
                                 transfer->shown);
        case CURLE_UNSUPPORTED_PROTOCOL: /* "Received HTTP/0.9 when not allowed" */
        case CURLE_WEIRD_SERVER_REPLY:
                return infp_fail(&transfer->err, -EBADMSG, "%s: the answer is not HTTP", transfer->shown);
        case CURLE_BAD_CONTENT_ENCODING:
                return infp_fail(&transfer->err, -EBADMSG, "%s: the answer cannot be unpacked: %s", transfer->shown,
                                 why);
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
                return infp_fail(&transfer->err, -ECONNRESET, "%s: the connection broke: %s", transfer->shown, why);
        case CURLE_SSL_CONNECT_ERROR:
                return infp_fail(&transfer->err, -EPROTO, "%s: no TLS connection: %s", transfer->shown, why);
        default:
                return infp_fail(&transfer->err, -EIO, "%s: %s", transfer->shown, why);
        }
}

static int explain_stop(struct infp_http_transfer *transfer)
{
        switch (transfer->stop_r) {
        case -EFBIG:
                return infp_fail(&transfer->err, -EFBIG, "%s: the answer is over the limit of %" PRIu64 " bytes",
                                 transfer->shown, transfer->max_bytes);
        case -EMSGSIZE:
                return infp_fail(&transfer->err, -EMSGSIZE, "%s: the headers of the answer are over %d bytes",
                                 transfer->shown, HTTP_HEADERS_MAX);
        case -ECANCELED:
                return infp_fail(&transfer->err, -ECANCELED, "%s: cancelled", transfer->shown);
        default:
                return infp_fail(&transfer->err, transfer->stop_r, "%s: the transfer was ended", transfer->shown);
        }
}

void infp_http_explain(struct infp_http_transfer *transfer, CURLcode code)
{
        int r;

        if (transfer->stop_r)
                r = explain_stop(transfer);
        else if (code == CURLE_OK)
                r = explain_redirect(transfer);
        else if (code == CURLE_OPERATION_TIMEDOUT)
                r = explain_timeout(transfer);
        else if (code == CURLE_COULDNT_CONNECT)
                r = explain_connect(transfer);
        else if (code == CURLE_PARTIAL_FILE)
                r = explain_cut(transfer);
        else if (code == CURLE_PEER_FAILED_VERIFICATION)
                r = explain_certificate(transfer);
        else
                r = explain_other(transfer, code);
        transfer->result.r = r;
        transfer->result.error = transfer->err.text;
}
